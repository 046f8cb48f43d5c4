/** The path that `PrefixRewrite` of a route produces. */

import type { Json } from "../../kit/mesh/mixed_mesh.ts";
import { type Area, type Case, get } from "../case.ts";

type Row = readonly [match: Json, to: string, paths: readonly string[]];

const ROWS: readonly Row[] = [
  [{ PathPrefix: "/slash/" }, "/", ["/slash/a", "/slash/", "/slash/a/b?c=d", "/slash//a"]],
  [{ PathPrefix: "/bare" }, "/new", ["/bare", "/bare/a", "/bared", "/bare?q=/bare"]],
  [{ PathPrefix: "/root" }, "/", ["/root", "/root/a", "/rooted"]],
  [{ PathPrefix: "/longer/" }, "/a/b/c/", ["/longer/d", "/longer/%2e%2e/d", "/longer/d%20e"]],
  [{ PathPrefix: "/old" }, "/", ["/old../a"]],
  [{ PathExact: "/top" }, "/", ["/top", "/top?q"]],
  [{ PathExact: "/exact" }, "/other/exact", ["/exact", "/exact?q=1"]],
  [{ PathPrefix: "/CaSe/", CaseInsensitive: true }, "/lower/", ["/case/a", "/CASE/A"]],
  [{ PathPrefix: "/denied-no-more/" }, "/denied/", ["/denied-no-more/a"]],
];

export const rewrites: Area = {
  name: "rewrites",
  entries: (at) => [
    { Kind: "service-resolver", Name: at("rewritten"), Redirect: { Service: at("http") } },
    {
      Kind: "service-router",
      Name: at("rewritten"),
      Routes: ROWS.map(([match, PrefixRewrite]) => ({
        Match: { HTTP: match },
        Destination: { PrefixRewrite },
      })),
    },
  ],
  cases: ROWS.flatMap(([, to, paths]) =>
    paths.map((path): Case => ({
      name: `${path} by ${to}`,
      to: "rewritten",
      ask: get(path),
      want: to === "/denied/" ? "403" : "200",
    }))
  ),
};
