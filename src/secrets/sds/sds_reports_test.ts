import assert from "node:assert/strict";
import test from "node:test";
import { FakeClock } from "../../../test/kit/clock/clock.ts";
import { createLog, type LogRecord } from "../../base/mod.ts";
import { grpcStatus } from "../../grpc/mod.ts";
import { GRPC_STATUS } from "../../http/mod.ts";
import { ServerHealth } from "./sds_reports.ts";

function healthWorld() {
  const clock = new FakeClock();
  const lines: LogRecord[] = [];
  const write = (line: LogRecord) => void lines.push(line);
  const health = new ServerHealth(clock, createLog({ clock, write, holder: { level: "debug" } }));
  const logged = () =>
    lines.filter(({ level }) => level !== "debug").map(({ level, message, fields }) =>
      [level, message, fields?.reason ?? ""].join(" ").trim()
    );
  return { clock, health, lines, logged };
}

const denied = (name: string) =>
  grpcStatus(GRPC_STATUS.invalidArgument, `not authorized for "${name}"`);
const LINE = "warn sds stream failed INVALID_ARGUMENT: not authorized for";
const AGAIN = "info sds server answers again";

test("ServerHealth logs each fault once if faults of several names alternate", () => {
  const { health, logged } = healthWorld();
  for (let i = 0; i < 50; i++) ["web", "ALL"].forEach((name) => health.failed(denied(name)));
  assert.deepEqual(logged(), [`${LINE} "web"`, `${LINE} "ALL"`]);
  health.reached();
  health.reached();
  health.failed(denied("web"));
  assert.deepEqual(logged().slice(2), [AGAIN, `${LINE} "web"`]);
});

test("ServerHealth logs the same fault once for each name", () => {
  const { health, lines } = healthWorld();
  for (const name of ["web", "ALL", "web"]) {
    health.failed(grpcStatus(GRPC_STATUS.invalidArgument, "no"), name);
  }
  const warned = lines.filter(({ level }) => level === "warn");
  assert.deepEqual(warned.map(({ fields }) => fields?.name), ["web", "ALL"]);
});

test("ServerHealth bounds the faults that it logs", () => {
  const { health, logged } = healthWorld();
  for (let i = 0; i < 1_000; i++) health.failed(denied(`s${i}`));
  assert.equal(logged().length, 20);
});

test("ServerHealth does not log a transient fault, and logs a lasting one once, whatever its text", async () => {
  const { clock, health, logged } = healthWorld();
  const lost = (reason: string) => health.failed(grpcStatus(GRPC_STATUS.unavailable, reason));
  lost("dropped");
  await clock.advance(29_000);
  lost("refused");
  health.reached();
  assert.deepEqual(logged(), []);
  lost("dropped");
  await clock.advance(30_000);
  for (const reason of ["refused", "dropped", "refused"]) lost(reason);
  assert.deepEqual(logged(), ["warn sds stream failed UNAVAILABLE: refused"]);
  health.reached();
  assert.equal(logged().at(-1), AGAIN);
});
