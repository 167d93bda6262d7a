import { Button, Group } from "@mantine/core";
import { useSuspenseQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { runRecipeQuery } from "../../api/runs";
import { CodeBlock } from "../../components/CodeBlock";

const route = getRouteApi("/shell/runs/$run/config");

/** The run's own copy of its recipe. */
export function ConfigTab() {
  const { run: id } = route.useParams();
  const { data } = useSuspenseQuery(runRecipeQuery(id));
  return (
    <>
      <Group mb="md">
        <Button variant="default" renderRoot={(props) => <Link {...props} to="/runs/new" search={{ from_run: id }} />}>
          New run from this recipe
        </Button>
      </Group>
      <CodeBlock text={data.source} label="recipe" />
    </>
  );
}
