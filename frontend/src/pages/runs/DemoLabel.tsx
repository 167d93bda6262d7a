import classes from "./DemoLabel.module.css";

/** Synthetic data must never pass for a run. */
export function DemoLabel() {
  return (
    <span className={classes.label} title="Made by manage.py seed_demo: nothing of it was run.">
      Demo data
    </span>
  );
}
