import assert from "node:assert/strict";
import { test } from "node:test";
import type { DataView } from "../../proxy/mod.ts";
import { FakeClock } from "../../../test/kit/clock.ts";
import type { DataPlane } from "../data_plane/plane.ts";
import { Heartbeat } from "./heartbeat.ts";

/** What a data path counts: `opened` connections of upstream `db`, of which `active` are open. */
function pathOf(opened: number, active: number): DataView {
  const labels = { direction: "outbound", listener: "db" };
  const samples = [["connections_opened_total", opened], ["connections_active", active]] as const;
  return {
    samples: samples.map(([name, value]) => ({ name, labels, value })),
  } as unknown as DataView;
}

function rig(paths: number) {
  const clock = new FakeClock();
  const world = { views: [] as readonly DataView[] };
  const used: string[][] = [];
  const heartbeat = new Heartbeat({
    ...{ clock, paths, signal: new AbortController().signal },
    plane: { views: () => Promise.resolve(world.views) } as unknown as DataPlane,
    onUsed: (upstreams) => void used.push([...upstreams]),
  });
  return { clock, world, used, heartbeat };
}

test("Heartbeat is healthy while every data path answers, and not 20 s after one stopped", async () => {
  const { clock, world, heartbeat } = rig(2);
  world.views = [pathOf(0, 0), pathOf(0, 0)];
  await clock.advance(60_000);
  assert.equal(heartbeat.healthy, true);
  world.views = [pathOf(0, 0)];
  await clock.advance(15_000);
  assert.equal(heartbeat.healthy, true);
  await clock.advance(5_000);
  assert.equal(heartbeat.healthy, false);
  world.views = [pathOf(0, 0), pathOf(0, 0)];
  await clock.advance(5_000);
  assert.equal(heartbeat.healthy, true);
});

test("Heartbeat names an upstream once for new connections, and as long as one is open", async () => {
  const { clock, world, used } = rig(1);
  for (
    const [opened, active, want] of [[3, 0, true], [3, 0, false], [4, 1, true], [
      4,
      1,
      true,
    ]] as const
  ) {
    world.views = [pathOf(opened, active)];
    await clock.advance(5_000);
    assert.equal(used.splice(0).length > 0, want, `${opened} opened, ${active} open`);
  }
});
