/**
 * The effect of callers without a certificate on callers that are served: requests under way, new ones,
 * and the calls that the local application makes. With the real process, and figures.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { EchoClient, pattern, type Place } from "../kit/wire/echo.ts";
import { createFileSidecar } from "../kit/mesh/file_sidecar.ts";
import { Load, type LoadResult } from "../kit/wire/load.ts";
import { openFiles } from "../kit/process/memory.ts";
import { eventually, pause } from "../kit/process/process.ts";
import { OWN_ENGINE, posternCommand, runPostern } from "../kit/process/postern.ts";
import { Strangers, type StrangersOptions } from "./strangers.ts";

const TESTED_MS = 3_000;
/** Strangers that kept their places would keep new callers out for this long. */
const HANDSHAKE_TIMEOUT_MS = 10_000;
const ADDRESSES = ["127.200.0.1", "127.200.0.2", "127.200.0.3", "127.200.0.4"];

interface Story {
  readonly name: string;
  readonly args: readonly string[];
  readonly under?: readonly string[];
  readonly strangers: Omit<StrangersOptions, "place">;
  /** Connections of the load that stay open and exchange messages. */
  readonly longLived: number;
  /** New calls have a place. */
  readonly newCalls: boolean;
}

const STORIES: readonly Story[] = [
  {
    name: "1,000 silent strangers and 500 places",
    args: ["-max-connections", "500"],
    strangers: { silent: 1_000, storm: 0, addresses: ADDRESSES },
    longLived: 4,
    newCalls: true,
  },
  {
    name: "1,000 silent strangers and 256 open files",
    args: [],
    under: ["prlimit", "--nofile=256:256"],
    strangers: { silent: 1_000, storm: 0, addresses: ADDRESSES },
    longLived: 4,
    newCalls: true,
  },
  {
    name: "a storm of strangers",
    args: [],
    strangers: { silent: 0, storm: 40, addresses: ADDRESSES },
    longLived: 4,
    newCalls: true,
  },
  {
    name: "a storm of strangers when all places are taken",
    args: ["-max-connections", "40"],
    strangers: { silent: 0, storm: 40, addresses: ADDRESSES },
    // One for each way.
    longLived: 20,
    newCalls: false,
  },
];

/** Deno itself ends when a burst takes the last descriptor. */
const survives = ({ under = [] }: Story) =>
  under.length === 0 || !posternCommand(OWN_ENGINE).includes("run");

for (
  const { name, args, under = [], strangers, longLived, newCalls } of STORIES.filter(survives)
) {
  test(`${name} harm no served caller`, async () => {
    await using mesh = await createFileSidecar();
    await using postern = runPostern([...mesh.args, ...args], { under });
    await postern.waitReady();
    await using load = new Load(mesh.upstream, { longLived, shortLived: newCalls ? 4 : 0 });
    await eventually("the load runs", () => load.result.exchanges > 2 * longLived);
    const before = load.result.exchanges;
    const started = performance.now();
    await using crowd = await Strangers.start({ place: mesh.inbound, ...strangers });
    let slowest = 0;
    if (newCalls) {
      slowest = await slowestCall(mesh.upstream).catch((cause) => {
        throw new Error(failuresIn(postern.output).join("\n"), { cause });
      });
    } else await pause(TESTED_MS);
    const files = await openFiles(postern.pid);
    const { connected } = await crowd.stop();
    const seconds = (performance.now() - started) / 1_000;
    const result: LoadResult = await load.stop();
    const lines = failuresIn(postern.output).length;
    console.log(
      `${name}: ${connected} connections in ${seconds.toFixed(1)} s; of ` +
        `${result.exchanges - before} exchanges ${result.errors} failed, the slowest ` +
        `new call took ${
          slowest.toFixed(0)
        } ms; ${files} open files, ${lines} lines about failures`,
    );
    assert.deepEqual(result.messages, [], failuresIn(postern.output).join("\n"));
    assert.ok(result.exchanges > before);
    assert.ok(slowest < HANDSHAKE_TIMEOUT_MS);
    assert.ok(lines < 20 * (seconds + 1), `${lines} lines`);
    // The connections that left are gone, and new ones are served.
    await slowestCall(mesh.upstream, 0);
  });
}

/** Milliseconds that the slowest took of calls made for a while; one at least. */
async function slowestCall(place: Place, forMs = TESTED_MS): Promise<number> {
  let slowest = 0;
  const started = performance.now();
  do {
    const begun = performance.now();
    const client = await EchoClient.open(place);
    await client.exchange(pattern(1, 1_000));
    await client.finish();
    client.destroy();
    slowest = Math.max(slowest, performance.now() - begun);
    await pause(20);
  } while (performance.now() - started < forMs);
  return slowest;
}

function failuresIn(output: string): string[] {
  return output.split("\n").filter((line) => line.includes("failed"));
}
