/**
 * A sidecar pair under churn for a while: connections come and go, credentials are rotated, an intention
 * flips, an unrelated root comes and goes. Every byte is checked. Ends with 1 when anything was lost,
 * late or let through, or when memory kept growing.
 *
 *     deno task soak                five minutes
 *     deno task soak -minutes 60
 *
 * @module
 */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startEcho } from "../test/kit/wire/echo.ts";
import { Load } from "../test/kit/wire/load.ts";
import { freePorts } from "../test/kit/process/ports.ts";
import { pause } from "../test/kit/process/process.ts";
import { HOST } from "./bench/site.ts";
import { ChurningMesh, type Service, SERVICES } from "./soak/churning_mesh.ts";

const FLIP_MS = 2_000;
const FLIPS_PER_ROTATION = 3;
const REPORT_MS = 10_000;
/** From a third of the time to its end; a heap that is still filling looks like growth before. */
const MAX_GROWTH = 1.25;

async function main(minutes: number): Promise<number> {
  const directory = await mkdtemp(join(tmpdir(), "postern-soak-"));
  const echo = await startEcho({ host: HOST });
  const names = [
    ...SERVICES.flatMap((service) => [`${service} admin`, `${service} upstream`]),
    "db inbound",
  ];
  const free = await freePorts(HOST, names.length);
  const ports = Object.fromEntries(names.map((name, index) => [name, free[index] ?? 0]));
  const mesh = new ChurningMesh(directory, { ...ports, echo: echo.port });
  try {
    await mesh.start();
    return await run(mesh, minutes);
  } finally {
    await mesh.stop();
    await echo.close();
    await rm(directory, { recursive: true, force: true });
  }
}

async function run(mesh: ChurningMesh, minutes: number): Promise<number> {
  const startedMs = performance.now();
  const endMs = startedMs + minutes * 60_000;
  const load = new Load(mesh.upstreamOf("web"), { longLived: 8, shortLived: 8, pauseMs: 5 });
  let early: Record<Service, number> | undefined;
  const every = async (periodMs: number, act: () => Promise<void> | void) => {
    while (performance.now() + periodMs < endMs) {
      await pause(periodMs);
      await act();
    }
  };
  const report = () => {
    mesh.check();
    const passed = performance.now() - startedMs;
    const megabytes = mesh.megabytes();
    if (passed * 3 >= minutes * 60_000) early ??= megabytes;
    const { exchanges, connections, errors } = load.result;
    const sizes = SERVICES.map((service) => `${service} ${megabytes[service].toFixed(0)}`).join(
      " ",
    );
    console.log(
      `${(passed / 1_000).toFixed(0).padStart(5)} s  ${exchanges} exchanges, ` +
        `${connections} connections, ${errors + mesh.errors.length} errors, ` +
        `${mesh.rotations} rotations, ${mesh.flips} flips; MB: ${sizes}`,
    );
  };
  try {
    await Promise.all([
      every(FLIP_MS, async () => {
        await mesh.flip();
        if (mesh.flips % FLIPS_PER_ROTATION === 0) await mesh.rotate();
      }),
      every(Math.min(REPORT_MS, minutes * 10_000), report),
    ]);
  } finally {
    await load.stop();
  }
  report();
  const problems = [...load.result.messages, ...mesh.errors, ...mesh.refusals().slice(0, 20)];
  const late = mesh.megabytes();
  for (const service of SERVICES) {
    const growth = late[service] / (early?.[service] ?? NaN);
    console.log(`${service}: memory ${growth.toFixed(2)} times that of a third of the way`);
    if (growth > MAX_GROWTH) problems.push(`${service}'s memory grew ${growth.toFixed(2)} times`);
  }
  for (const problem of problems) console.log(`PROBLEM: ${problem}`);
  if (load.result.exchanges < 100) problems.push("hardly any traffic");
  console.log(problems.length === 0 ? "no error" : `${problems.length} problems`);
  return problems.length === 0 ? 0 : 1;
}

const [flag = "-minutes", value = "5"] = process.argv.slice(2);
const minutes = Number(value);
if (!/^--?minutes$/.test(flag) || !(minutes > 0)) {
  console.error("Usage: deno task soak [-minutes N]");
  process.exit(2);
}
process.exit(await main(minutes));
