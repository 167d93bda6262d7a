import { Modal, Switch } from "@mantine/core";

import { describeKeys } from "../lib/keys";
import { singleKeys } from "../lib/preferences";
import classes from "./Help.module.css";

const ALWAYS = [
  { key: "Ctrl K", label: "Go to or do" },
  { key: "Tab, Enter, arrows", label: "Through controls, tables and lists" },
  { key: "Esc", label: "Close" },
];

/** The keys of the page that is open and of all pages. */
export function Help({ onClose }: { onClose: () => void }) {
  const keys = describeKeys();
  const areOn = singleKeys.use() === "on";
  const scopes = [
    { title: "This page", rows: keys.filter(({ scope }) => scope === "This page") },
    { title: "Everywhere", rows: [...ALWAYS, ...keys.filter(({ scope }) => scope === "Everywhere")] },
  ];
  return (
    <Modal opened onClose={onClose} title="Keyboard" size={640} transitionProps={{ duration: 0 }} closeButtonProps={{ "aria-label": "Close" }}>
      <div className={classes.scopes}>
        {scopes.map(({ title, rows }) => (
          <section key={title}>
            <h3>{title}</h3>
            {rows.length === 0 && <p className={classes.none}>This page has no keys of its own.</p>}
            <dl className={classes.keys}>
              {rows.map(({ key, label }) => (
                <div key={key}>
                  <dt>
                    <kbd>{key}</kbd>
                  </dt>
                  <dd>{label}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <Switch
        size="xs" label="Single keys and sequences; Ctrl K always works" checked={areOn}
        onChange={(event) => singleKeys.set(event.currentTarget.checked ? "on" : "off")}
      />
    </Modal>
  );
}
