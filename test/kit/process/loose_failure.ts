/**
 * A process whose first data worker, with a plugin in it, throws errors that are not caught; prints how
 * often it outlived that, and how often a worker died.
 *
 * @module
 */

import process from "node:process";
import { answerOf, startRawOrigin } from "../wire/http_raw.ts";
import { eventually } from "./process.ts";
import { httpRules, withInbound } from "../engine/snapshots.ts";
import { startWorkerRig } from "../engine/worker_rig.ts";

const LOOSE = "plugin_loose_failures_total";

await using origin = await startRawOrigin(() => answerOf("ok"));
await using rig = await startWorkerRig({
  app: { host: "127.0.0.1", port: origin.port },
  http: httpRules("http"),
});
const { plane, snapshot } = rig;
const at = "inbound.plugins[0]";
const plugins = [{ plugin: "header_rules", config: {}, onFailure: "refuse", at }] as const;
const next = withInbound({ ...snapshot, version: snapshot.version + 1 }, { plugins });
await plane.rollout.apply(next);
rig.kill(0);
const died = () => rig.lines.filter(({ message }) => /worker died/.test(message)).length;
let outlived = 0;
await eventually("it is over", async () => {
  const samples = (await plane.views({ connections: false })).flatMap((view) => view.samples);
  outlived = samples.reduce((sum, { name, value }) => sum + (name === LOOSE ? value : 0), 0);
  return outlived + died() > 0;
});
console.log(`outlived ${outlived}, died ${died()}`);
process.exit(0);
