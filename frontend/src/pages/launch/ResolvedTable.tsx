import { TextInput } from "@mantine/core";
import { useState } from "react";
import { ScrollRegion } from "../../components/ScrollRegion";

import { formatCount, visibleText } from "../../lib/format";
import { leavesOf } from "./recipeSchema";
import classes from "./ResolvedTable.module.css";

/** Every value of a recipe with its defaults, by path. */
export function ResolvedTable({ recipe, label }: { recipe: unknown; label: string }) {
  const [wanted, setWanted] = useState("");
  const leaves = leavesOf(recipe).sort((a, b) => a.path.localeCompare(b.path, "en", { numeric: true }));
  const found = leaves.filter(({ path, value }) => `${path} ${value}`.toLowerCase().includes(wanted.trim().toLowerCase()));
  return (
    <>
      <div className={classes.bar}>
        <TextInput aria-label={`Find in ${label}`} placeholder="Find a value" value={wanted} onChange={(event) => setWanted(event.currentTarget.value)} />
        <span aria-live="polite">
          {formatCount(found.length)} of {formatCount(leaves.length)} values
        </span>
      </div>
      <ScrollRegion className={classes.scroller} label={label}>
        <table className={classes.table}>
          <thead>
            <tr>
              <th scope="col">Key</th>
              <th scope="col">Value</th>
            </tr>
          </thead>
          <tbody>
            {found.map(({ path, value }) => (
              <tr key={path}>
                <td>{path}</td>
                <td>{visibleText(value)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
    </>
  );
}
