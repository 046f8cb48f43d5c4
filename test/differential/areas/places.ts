/**
 * Requests that lead to no upstream with an application behind it: exposed paths, and services that do
 * not exist.
 */

import type { WrittenRequest } from "../../kit/wire/send_request.ts";
import { EXPOSED, type MixedMesh, NOWHERE, PROXIES } from "../../kit/mesh/mixed_mesh.ts";
import type { Area, Wire } from "../case.ts";
import { explainersOf, type Round } from "../compare.ts";
import { FORWARDED, rpc } from "./messages.ts";

const EXPOSURES: readonly (readonly [want: string, ask: Partial<WrittenRequest>])[] = [
  ["200", { path: EXPOSED, fields: FORWARDED }],
  ["200", { path: `${EXPOSED}?a=b` }],
  ["404", { path: `${EXPOSED}/more` }],
  ["404", { path: "/", method: "POST", body: "abc" }],
  ["404", { path: `/x/..${EXPOSED}` }],
  ["200", { path: `${EXPOSED}`, method: "POST", body: "abc" }],
];

const WIRES: readonly Wire[] = ["1.1", "2"];

/** Any caller may send them, to either proxy. */
export function exposures(mesh: MixedMesh): readonly Round[] {
  const places = PROXIES.map((proxy) => {
    const place = mesh.exposed(proxy);
    const sidecar = mesh.postern(`http-${proxy}`);
    const query = { listener: `exposed:${place.port}` };
    return [proxy, place, sidecar && { caller: { sidecar, query } }] as const;
  });
  return EXPOSURES.flatMap(([want, ask]) =>
    WIRES.map((wire) => ({
      name: `exposed: ${ask.method ?? "GET"} ${ask.path} (${wire})`,
      of: { wire, ask, want },
      places,
    }))
  );
}

const ASKS: readonly (readonly [wire: Wire, ask: Partial<WrittenRequest>, want: string])[] = [
  ["1.1", {}, "503"],
  ["2", {}, "503"],
  ["2", rpc("/unary"), "200 grpc 14"],
];

/** No instance, or one where nothing listens. */
export function nowhere(mesh: MixedMesh): readonly Round[] {
  return NOWHERE.flatMap((name) =>
    ASKS.map(([wire, ask, want]) => ({
      name: `nowhere: ${name} (${want}, ${wire})`,
      of: { wire, ask, want },
      places: PROXIES.map((proxy) => {
        const by = explainersOf(mesh, { from: proxy, upstream: name });
        return [proxy, mesh.upstream(proxy, name), by] as const;
      }),
    }))
  );
}

/** To be sent when the applications have stopped. */
export const GONE: Area = {
  name: "no application",
  isMixed: true,
  entries: () => [],
  cases: ASKS.map(([wire, ask, want]) => ({
    name: "gone",
    to: want === "503" ? "http" : "grpc",
    wire,
    ask,
    want,
  })),
};
