/** Friendly names for the shapes of the API; schema.d.ts is generated from docs/openapi.json. */
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Me = Schemas["Me"];
export type Project = Schemas["Project"];
export type Role = Schemas["Role"];

export type Run = Schemas["Run"];
export type RunDetail = Schemas["RunDetail"];
export type RunStatus = Schemas["RunStatus"];
export type Stage = Schemas["Stage"];
export type StageBrief = Schemas["StageBrief"];
export type StageStatus = Schemas["StageStatus"];
export type Step = Schemas["Step"];
export type StepStatus = Schemas["StepStatus"];
export type StepDetail = Schemas["StepDetail"];
export type BatchGroup = Schemas["BatchGroup"];
export type BatchMember = Schemas["BatchMember"];
export type Overview = Schemas["Overview"];
export type MetricSeries = Schemas["MetricSeries"];
export type MetricName = Schemas["MetricName"];
export type Series = Schemas["Series"];
export type Buckets = Schemas["Buckets"];
export type RunEvent = Schemas["Event"];
export type EventLevel = Schemas["EventLevel"];
export type Evaluation = Schemas["Evaluation"];
export type TaskResult = Schemas["TaskResult"];
export type Recipe = Schemas["StoredRecipe"];
export type Check = Schemas["Check"];
export type Plan = Schemas["Plan"];
export type StagePlan = Schemas["StagePlan"];
export type Checkpoint = Schemas["Checkpoint"];
export type TrainerLife = Schemas["TrainerLife"];

export type Group = Schemas["Group"];
export type GroupDetail = Schemas["GroupDetail"];
export type GroupMember = Schemas["GroupMember"];
export type GroupStatus = Schemas["GroupStatus"];
export type Trajectory = Schemas["Trajectory"];
export type TrajectoryFacets = Schemas["TrajectoryFacets"];
export type TrajectoryTotals = Schemas["TrajectoryTotals"];
export type TrajectoryStatus = Schemas["TrajectoryStatus"];
export type TrajectoryDetail = Schemas["TrajectoryDetail"];
export type StopReason = Schemas["StopReason"];
export type Attempt = Schemas["Attempt"];
export type AttemptStatus = Attempt["status"];
export type Turn = Schemas["Turn"];

export type Sandbox = Schemas["Sandbox"];
export type SandboxStatus = Schemas["SandboxStatus"];
export type SandboxFleet = Schemas["SandboxFleet"];
export type SandboxCarpet = Schemas["SandboxCarpet"];
export type SandboxDetail = Schemas["SandboxDetail"];
export type LifeState = Schemas["LifeState"];
export type FailureState = Schemas["FailureState"];
export type FailureStage = Schemas["FailureStage"];
export type FailureClass = Schemas["FailureClass"];
export type FailureGroupDetail = Schemas["FailureGroupDetail"];
export type FailureGroup = Schemas["FailureGroup"];
export type Failure = Schemas["Failure"];
export type FailureBrief = Schemas["FailureBrief"];
export type Engine = Schemas["Engine"];
export type EngineStatus = Schemas["EngineStatus"];
export type Worker = Schemas["Worker"];
export type WorkerStatus = Schemas["WorkerStatus"];
export type Node = Schemas["Node"];
export type Queue = Schemas["Queue"];
export type Limit = Schemas["Limit"];

export type TaskSet = Schemas["TaskSet"];
export type TaskSetDetail = Schemas["TaskSetDetail"];
export type Task = Schemas["Task"];
export type TaskDetail = Schemas["TaskDetail"];
export type Bucket = Schemas["Bucket"];
export type EvalArm = Schemas["EvalArm"];
export type EvalCompare = Schemas["EvalCompare"];
export type Comparison = Schemas["Comparison"];

export type ServerMessage = Schemas["LiveServerMessage"];
export type ClientMessage = Schemas["LiveClientMessage"];
