/**
 * A server for `descriptors_test.ts`: runs with a low limit of open files and reports on standard output
 * what its gate does.
 *
 * @module
 */

import process from "node:process";
import { systemClock } from "../../../src/base/mod.ts";
import { AcceptGate, runtimeEngine } from "../../../src/net/mod.ts";

const tell = (kind: string, fields: Record<string, unknown> = {}) => {
  const { user, system } = process.cpuUsage();
  const report = { kind, accepted, cpuMs: (user + system) / 1_000, ...fields };
  process.stdout.write(`${JSON.stringify(report)}\n`);
};
let accepted = 0;
const gate = new AcceptGate({
  clock: systemClock,
  onChange: (pausedFor, headroom) => {
    // Only connections of this test arrive here.
    if (pausedFor !== "strangers") tell(pausedFor === "all" ? "paused" : "resumed", { headroom });
  },
});
const listener = await runtimeEngine().listen(
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, reusePort: false },
  (connection) => {
    if (!gate.opened("own")) return connection.reset();
    accepted++;
    connection.events = {
      onData: (chunk) => void connection.write(chunk),
      onEnd: () => connection.end(),
      onDrain: () => {},
      onClose: () => {},
    };
  },
);
gate.add(listener, "own");
process.stdin.on("data", () => tell("usage"));
tell("ready", { port: listener.address.kind === "tcp" ? listener.address.port : 0 });
