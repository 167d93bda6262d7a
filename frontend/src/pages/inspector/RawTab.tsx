import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import { atifPath, atifQuery } from "../../api/inspector";
import { CopyAs } from "../../components/CopyAs";
import { CopyButton } from "../../components/CopyButton";
import { Loading } from "../../components/Loading";
import { formatBytes } from "../../lib/format";
import { prettyJson } from "../../lib/prettyJson";
import { Fault } from "./Fault";
import classes from "./RawTab.module.css";
import type { TabProps } from "./tabs";
import { VirtualText } from "./VirtualText";

/** The whole attempt as the document that other tools read. */
export function RawTab({ trajectory, attempt }: TabProps) {
  const query = useQuery(atifQuery(trajectory.id, attempt.number));
  const text = useMemo(() => (query.data === undefined ? "" : prettyJson(JSON.parse(query.data))), [query.data]);
  if (query.isError) return <Fault query={query} />;
  if (query.data === undefined) return <Loading rows={8} />;
  return (
    <div className={classes.page}>
      <header className={classes.bar}>
        <span>ATIF 1.7, {formatBytes(query.data.length)}; token ids and log-probs under each step’s metrics</span>
        <Button component="a" variant="default" href={atifPath(trajectory.id, attempt.number)} download>
          Download
        </Button>
        <CopyButton text={text} label="Copy the document" />
        <CopyAs path={`/api/v1/trajectories/${trajectory.id}/atif`} query={{ attempt: attempt.number }} />
      </header>
      <VirtualText label="ATIF document" text={text} height={720} />
    </div>
  );
}
