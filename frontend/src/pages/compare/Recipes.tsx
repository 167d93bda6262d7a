import { useQueries } from "@tanstack/react-query";

import { runRecipeQuery } from "../../api/runs";
import { ErrorState } from "../../components/ErrorState";
import { Loading } from "../../components/Loading";
import { ScrollRegion } from "../../components/ScrollRegion";
import { ABSENT, formatCount, visibleText } from "../../lib/format";
import { flatten, rowsOf } from "../../lib/flatten";
import classes from "./ComparePage.module.css";
import type { CompareChange } from "./search";
import { Shape } from "./Summary";
import { type Compared, nameOf } from "./types";

type Props = { runs: readonly Compared[]; isAll: boolean; onChange: (change: CompareChange) => void };

/** What the recipes mean with all defaults, a row a value: those that differ, or all. */
export function Recipes({ runs, isAll, onChange }: Props) {
  const answers = useQueries({ queries: runs.map(({ run }) => runRecipeQuery(run.id)) });
  const failed = answers.find((one) => one.isError);
  if (failed !== undefined) {
    const retry = () => {
      failed.refetch().catch(() => undefined);
    };
    return <ErrorState error={failed.error} onRetry={retry} />;
  }
  if (answers.some((one) => one.isPending)) return <Loading rows={4} />;
  const rows = rowsOf(answers.map(({ data }) => flatten(data?.recipe)));
  const different = rows.filter((row) => row.isDifferent);
  const shown = isAll ? rows : different;
  return (
    <section aria-label="Recipes">
      <header className={classes.heading}>
        <h2>Recipes</h2>
        <span className={classes.unit}>
          {formatCount(different.length)} of {formatCount(rows.length)} values differ
        </span>
        <label className={classes.toggle}>
          <input type="checkbox" checked={!isAll} onChange={(event) => onChange({ recipe: event.currentTarget.checked ? undefined : "all" })} />
          Only differences
        </label>
      </header>
      {shown.length === 0 ? (
        <p className={classes.notice}>The recipes are the same in every value.</p>
      ) : (
        <ScrollRegion className={classes.scroller} label="Recipe values">
          <table className={classes.table}>
            <thead>
              <tr>
                <th scope="col">Value</th>
                {runs.map((one) => (
                  <th key={one.run.id} scope="col">
                    <Shape {...one} />
                    {nameOf(one)}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {shown.map(({ path, values, isDifferent }) => (
                <tr key={path} data-different={isDifferent && isAll}>
                  <th scope="row">
                    <code>{visibleText(path)}</code>
                  </th>
                  {values.map((value, place) => (
                    <td key={runs[place]?.run.id}>{value === null ? ABSENT : <code>{visibleText(value)}</code>}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollRegion>
      )}
    </section>
  );
}
