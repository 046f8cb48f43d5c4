/** The limits that `UpstreamConfig` of the caller sets. */

import { LIMITED, PROXIES } from "../../kit/mesh/mixed_mesh.ts";
import { type Area, type Case, planned } from "../case.ts";

const LIMITS: Readonly<Record<(typeof LIMITED)[number], object>> = {
  requests: { MaxConcurrentRequests: 1 },
  connections: { MaxConnections: 1 },
  pending: { MaxConnections: 1, MaxPendingRequests: 1 },
  scarce: { MaxConnections: 1, MaxPendingRequests: 1, MaxConcurrentRequests: 1 },
};
/** The number of answered requests among three that are sent at once. */
const ANSWERED: Readonly<Record<keyof typeof LIMITS, number>> = {
  requests: 1,
  connections: 3,
  pending: 2,
  scarce: 2,
};

export const limits: Area = {
  name: "limits",
  shared: [{
    Kind: "service-defaults",
    Name: "web",
    Protocol: "http",
    UpstreamConfig: {
      Overrides: LIMITED.flatMap((name) =>
        PROXIES.map((proxy) => ({ Name: `${name}-${proxy}`, Limits: LIMITS[name] }))
      ),
    },
  }],
  entries: () => [],
  isOneByOne: true,
  cases: LIMITED.flatMap((name): Case[] => [
    { name: "one after the other", to: name, want: `200 ${name}` },
    {
      name: "three at once",
      to: name,
      times: 3,
      ask: planned("soon"),
      isCrowded: true,
      want: ANSWERED[name] === 3 ? `200 ${name}` : `200 ${name} | 503`,
      shares: { [`200 ${name}`]: ANSWERED[name] / 3 },
    },
    { name: "and then one again", to: name, want: `200 ${name}` },
  ]),
};
