import { Page } from "../../components/Page";
import { EngineList } from "./EngineList";

export function EnginesPage() {
  return (
    <Page title="Engines">
      <EngineList />
    </Page>
  );
}
