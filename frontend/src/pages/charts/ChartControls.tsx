import { Checkbox, Select, TextInput } from "@mantine/core";
import { type SyntheticEvent, type ReactNode, useState } from "react";

import { Filters } from "../../components/Filters";
import { Y_SCALE_LABEL, Y_SCALES } from "../../components/metricPlot";
import { X_AXES, X_LABEL, type XAxis } from "../../lib/axis";
import { useZone } from "../../lib/preferences";
import { fromPlaceText, PLACE_UNIT, toPlaceText } from "../../lib/placeText";
import classes from "./ChartsTab.module.css";
import type { ChartsSearch } from "./search";
import { SmoothingChoice } from "./SmoothingChoice";

type Change = Partial<Record<keyof ChartsSearch, ChartsSearch[keyof ChartsSearch]>>;
type Props = { search: ChartsSearch; onChange: (change: Change, replace?: boolean) => void; children: ReactNode };

/** Which curves, on which axes, how smooth, what range: each is a word of the address. */
export function ChartControls({ search, onChange, children }: Props) {
  const { q = "", x = "step", from, to, scale = "linear", clip, ghosts } = search;
  return (
    <>
      <Filters>
        <TextInput
          aria-label="Search curves"
          placeholder="Search curves"
          value={q}
          onChange={(event) => onChange({ q: event.currentTarget.value === "" ? undefined : event.currentTarget.value }, true)}
        />
        <Select
          aria-label="X axis"
          data={X_AXES.map((value) => ({ value, label: X_LABEL[value] }))}
          value={x}
          allowDeselect={false}
          onChange={(value) => onChange({ x: value === "step" ? undefined : (value ?? undefined), from: undefined, to: undefined })}
        />
        <SmoothingChoice text={search.smooth} onChange={(smooth) => onChange({ smooth })} />
        <Select
          aria-label="Scale"
          data={Y_SCALES.map((value) => ({ value, label: Y_SCALE_LABEL[value] }))}
          value={scale}
          allowDeselect={false}
          onChange={(value) => onChange({ scale: value === "linear" ? undefined : (value ?? undefined) })}
        />
        <div data-fits className={classes.switches}>
          <Checkbox
            label="p1–p99"
            title="The value axis from the 1st to the 99th percentile; what lies outside is a mark on its edge"
            checked={clip !== undefined}
            onChange={(event) => onChange({ clip: event.currentTarget.checked ? "p1-p99" : undefined })}
          />
          <Checkbox
            label="Ghosts"
            title="Steps that a resume has superseded"
            checked={ghosts !== "off"}
            onChange={(event) => onChange({ ghosts: event.currentTarget.checked ? undefined : "off" })}
          />
        </div>
        {children}
      </Filters>
      <Range key={`${x} ${from ?? ""} ${to ?? ""}`} x={x} from={from} to={to} onChange={onChange} />
    </>
  );
}

type RangeProps = { x: XAxis; from: number | undefined; to: number | undefined; onChange: (change: Change) => void };

/** The range by typing: what a drag over a chart does, without a pointer (WCAG 2.5.7). */
function Range({ x, from, to, onChange }: RangeProps) {
  const zone = useZone();
  const [low, setLow] = useState(() => toPlaceText(x, from, zone));
  const [high, setHigh] = useState(() => toPlaceText(x, to, zone));
  const ends = [fromPlaceText(x, low, zone), fromPlaceText(x, high, zone)] as const;
  const isGood = !ends.includes(null) && (ends[0] == null || ends[1] == null || ends[0] < ends[1]);
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    if (isGood) onChange({ from: ends[0] ?? undefined, to: ends[1] ?? undefined });
  };
  const type = x === "wall" ? "datetime-local" : "text";
  return (
    <form className={classes.range} onSubmit={submit} aria-label="Range">
      <span>{X_LABEL[x]}{PLACE_UNIT[x]} from</span>
      <TextInput aria-label="Range from" type={type} step={1} placeholder="start" value={low} onChange={(event) => setLow(event.currentTarget.value)} error={!isGood} />
      <span>to</span>
      <TextInput aria-label="Range to" type={type} step={1} placeholder="end" value={high} onChange={(event) => setHigh(event.currentTarget.value)} error={!isGood} />
      <button type="submit" disabled={!isGood}>
        Zoom
      </button>
      {(from !== undefined || to !== undefined) && (
        <button type="button" onClick={() => onChange({ from: undefined, to: undefined })}>
          Whole range
        </button>
      )}
      <span className={classes.hint}>{isGood ? "or drag over a chart; a double click shows all" : "Give two numbers, the lower first."}</span>
    </form>
  );
}
