/**
 * The same Consul, the same config entries, a pair of Envoys, a pair of Posterns and pairs of one each,
 * the same requests: the application gets the same and the caller gets the same, except for the rows of
 * `docs/differences.md`.
 */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { MixedMesh } from "../kit/mesh/mixed_mesh.ts";
import { eventually } from "../kit/process/process.ts";
import { headers } from "./areas/headers.ts";
import { grpc, messages } from "./areas/messages.ts";
import { optionsOfMesh, paths } from "./areas/normalisation.ts";
import { exposures, GONE, nowhere } from "./areas/places.ts";
import { retries } from "./areas/retries.ts";
import { routes } from "./areas/routes.ts";
import { limits } from "./areas/limits.ts";
import { rewrites } from "./areas/rewrites.ts";
import { stickiness } from "./areas/stickiness.ts";
import { wires } from "./areas/wires.ts";
import { targets } from "./areas/targets.ts";
import { timeouts } from "./areas/timeouts.ts";
import type { Area } from "./case.ts";
import { Comparison, type Round, roundsOf } from "./compare.ts";
import { SAID_OF_ENVOY, unexpected, unmet } from "./expected.ts";

const AREAS: readonly Area[] = [
  messages,
  grpc,
  wires,
  paths,
  routes,
  rewrites,
  headers,
  retries,
  timeouts,
  targets,
  stickiness,
  limits,
];
/** The upstreams that `MixedMesh` has by itself. */
const GIVEN = new Set(["http", "http2", "grpc"]);

test("pairs with Postern on one side or both behave as two Envoys do", async (t) => {
  const upstreams = new Set(AREAS.flatMap(({ cases }) => cases.map(({ to }) => to)));
  await using mesh = await MixedMesh.start({
    shared: AREAS.flatMap(({ shared = [] }) => shared),
    upstreams: [...upstreams].filter((name) => !GIVEN.has(name)),
    entries: (at) => AREAS.flatMap(({ entries }) => entries(at)),
  });
  const comparison = new Comparison(mesh);
  const all: string[] = [];
  const compare = async (name: string, rounds: readonly Round[], isOneByOne = false) => {
    await t.test(`${name}: ${rounds.length} cases`, async () => {
      const found = await comparison.differences(rounds, isOneByOne ? 1 : undefined);
      all.push(...found);
      assert.deepEqual(unexpected(found), []);
    });
  };
  await comparison.ready(AREAS.flatMap((area) => roundsOf(mesh, area)));
  for (const area of AREAS) await compare(area.name, roundsOf(mesh, area), area.isOneByOne);
  await compare("exposed paths", exposures(mesh));
  await compare("no application", nowhere(mesh));

  for (const [entry, area] of optionsOfMesh) {
    await mesh.consul.configEntry(entry);
    const rounds = roundsOf(mesh, area);
    const before = comparison.unexplained.length;
    await eventually(`in force: ${area.name}`, async () => {
      const differences = unexpected(await comparison.differences(rounds));
      // A change that one proxy knew before the other is no difference.
      const wrong = unexpected(comparison.unexplained.splice(before), SAID_OF_ENVOY);
      const [first] = [...differences, ...wrong];
      if (first !== undefined) throw new Error(first);
      return true;
    });
    await compare(area.name, rounds);
  }

  await mesh.stopApps();
  await compare(GONE.name, roundsOf(mesh, GONE));

  await t.test(`explain predicts the outcome of ${comparison.explained} requests`, () => {
    assert.deepEqual(unexpected(comparison.unexplained, SAID_OF_ENVOY), []);
    assert.deepEqual([...new Set(comparison.unasked.values())].sort(), [
      "explain knows no other version of HTTP",
      "others are asked at once",
      "the admin server takes no such question",
    ]);
  });

  await t.test("expected differences exist, and docs/differences.md lists them", async () => {
    const docs = await readFile(new URL("../../docs/differences.md", import.meta.url), "utf8");
    assert.deepEqual(unmet(all, docs), []);
    assert.deepEqual(unmet(comparison.unexplained, docs, SAID_OF_ENVOY), []);
  });
});
