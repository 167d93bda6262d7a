import { Select, TextInput } from "@mantine/core";
import { useState } from "react";

import { isAmount, readSmoothing, SMOOTH_LABEL, SMOOTHINGS, withKind, writeSmoothing } from "../../lib/smoothing";
import classes from "./ChartsTab.module.css";

/** How curves are smoothed, and over how much. */
export function SmoothingChoice({ text, onChange }: { text: string | undefined; onChange: (text: string | undefined) => void }) {
  const smoothing = readSmoothing(text);
  const [amount, setAmount] = useState(String(smoothing.amount));
  const written = `${smoothing.kind}:${smoothing.amount}`;
  const [before, setBefore] = useState(written);
  if (before !== written) {
    setBefore(written);
    setAmount(String(smoothing.amount));
  }
  const isGood = isAmount(smoothing.kind, Number(amount));
  const commit = () => {
    if (isGood && Number(amount) !== smoothing.amount) onChange(writeSmoothing({ kind: smoothing.kind, amount: Number(amount) }));
  };
  return (
    <>
      <Select
        aria-label="Smoothing"
        data={SMOOTHINGS.map((value) => ({ value, label: SMOOTH_LABEL[value] }))}
        value={smoothing.kind}
        allowDeselect={false}
        onChange={(kind) => onChange(writeSmoothing(withKind(SMOOTHINGS.find((one) => one === kind) ?? "mean")))}
      />
      {smoothing.kind !== "none" && (
        <TextInput
          data-fits
          className={classes.amount}
          aria-label={smoothing.kind === "ema" ? "Weight of the past, 0 to 0.99" : "Window, 1 to 100 steps"}
          inputMode="decimal"
          value={amount}
          error={!isGood}
          onChange={(event) => setAmount(event.currentTarget.value)}
          onBlur={commit}
          onKeyDown={(event) => {
            if (event.key === "Enter") commit();
          }}
        />
      )}
    </>
  );
}
