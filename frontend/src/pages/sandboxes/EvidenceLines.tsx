import { Link } from "@tanstack/react-router";
import { useEffect, useMemo, useRef } from "react";
import { ScrollRegion } from "../../components/ScrollRegion";

import { formatCount, visibleText } from "../../lib/format";
import { readEvidence } from "./evidence";
import classes from "./EvidenceLines.module.css";

type Props = { sandbox: number; evidence: Record<string, unknown>; line: number | undefined };

/** The evidence line by line, at the first that speaks of an error; each line has an address. */
export function EvidenceLines({ sandbox, evidence, line }: Props) {
  const { lines, facts, firstError } = useMemo(() => readEvidence(evidence), [evidence]);
  const anchor = line ?? firstError;
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const target = box.current?.querySelector<HTMLElement>("[data-anchor]");
    if (target != null && box.current !== null) box.current.scrollTop = target.offsetTop - box.current.clientHeight / 3;
  }, [anchor]);
  return (
    <>
      {facts.length > 0 && (
        <dl className={classes.facts}>
          {facts.map(({ name, value }) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{visibleText(value)}</dd>
            </div>
          ))}
        </dl>
      )}
      {lines.length === 0 ? (
        <p className={classes.note}>The failure brought no text beyond its message.</p>
      ) : (
        <>
          <ScrollRegion ref={box} className={classes.box} label="evidence">
            {lines.map(({ number, source, text }) => (
              <div key={number} className={classes.line} data-anchor={number === anchor || undefined}>
                <Link to="/sandboxes/$sandbox" params={{ sandbox }} search={{ line: number }} aria-label={`line ${number} of ${source}`}>
                  {number}
                </Link>
                <code>{visibleText(text)}</code>
              </div>
            ))}
          </ScrollRegion>
          <p className={classes.note}>
            {formatCount(lines.length)} {lines.length === 1 ? "line" : "lines"} of {[...new Set(lines.map((one) => one.source))].join(", ")}
            {firstError !== null && line === undefined && `; opened at line ${firstError}, the first that speaks of an error`}
          </p>
        </>
      )}
    </>
  );
}
