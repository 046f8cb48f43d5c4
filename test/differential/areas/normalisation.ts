/** What becomes of a path on its way to an application, and what the options of the mesh change about it. */

import { type Area, type Case, get } from "../case.ts";
import type { Json } from "../../kit/mixed_mesh.ts";

/** Which options hold, by their entry. */
export const MESH: Json = {
  Kind: "mesh",
  HTTP: {
    SanitizeXForwardedClientCert: true,
    Incoming: {
      RequestNormalization: {
        MergeSlashes: true,
        PathWithEscapedSlashesAction: "REJECT_REQUEST",
        HeadersWithUnderscoresAction: "DROP_HEADER",
      },
    },
  },
};

/** `[path, answered with these options, without them]`; 200: the path that arrives is compared. */
const PATHS: readonly (readonly [path: string, withOptions: string, without?: string])[] = [
  ["/a/./b", "200"],
  ["/a/../b", "200"],
  ["/a/b/..", "200"],
  ["/..", "200"],
  ["/../../a", "200"],
  ["/a/%2e%2e/b", "200"],
  ["/a/%2E./b", "200"],
  ["/a//b", "200"],
  ["//a", "200"],
  ["/a//b/%2e%2e///c?d//e", "200"],
  ["/a/..//denied", "403", "200"],
  ["//denied", "403", "200"],
  ["/x/../denied", "403"],
  ["/%64enied", "403"],
  ["/a%2fb", "400", "200"],
  ["/a%5Cb", "400", "200"],
  ["/a\\b", "200"],
  ["/a\\..\\denied", "403"],
  ["/a%25b", "200"],
  ["/a%20b", "200"],
  ["/caf%c3%a9", "200"],
  ["/%41%7e%2D", "200"],
  ["/a;b=c/..;/d", "200"],
  ["/a%zz", "200"],
  ["/a%", "200"],
  ["/a?b=%2f..%00", "200"],
  ["/a?/../b", "200"],
  ["/a%00", "400"],
  ["/a^|{}", "200"],
  ['/"<>`', "200"],
];

function cases(hasOptions: boolean): readonly Case[] {
  return PATHS.flatMap(([path, withOptions, without = withOptions]) =>
    (["1.1", "2"] as const).map((wire): Case => ({
      ...{ name: path, to: wire === "2" ? "http2" : "http", wire, ask: get(path) },
      want: hasOptions ? withOptions : without,
    }))
  );
}

export const paths: Area = { name: "paths", entries: () => [], cases: cases(false) };

export const optionsOfMesh: Area = {
  name: "options of the mesh",
  isMixed: true,
  entries: () => [],
  cases: [
    ...cases(true),
    ...(["http", "http2"] as const).flatMap((to) =>
      (["1.1", "2"] as const).flatMap((wire): Case[] => [
        {
          ...{ name: "what the caller says of itself", to, wire, want: "200" },
          ask: { fields: ["x-forwarded-client-cert: By=me"] },
        },
        {
          ...{ name: "an underscore in a name", to, wire, want: "200" },
          ask: { fields: ["x_own: 1", "x-own_: 1"] },
        },
      ])
    ),
  ],
};
