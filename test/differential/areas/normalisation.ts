/** The path that reaches an application, and how the options of the mesh change it. */

import type { Json } from "../../kit/mesh/mixed_mesh.ts";
import { type Area, type Case, get, type Wire } from "../case.ts";

function mesh(RequestNormalization: Json, more: Json = {}): Json {
  return { Kind: "mesh", HTTP: { ...more, Incoming: { RequestNormalization } } };
}

/** In the order in which they come to be in force; none at first. */
const OPTIONS: Readonly<Record<string, Json>> = {
  "merged and strict": mesh({
    MergeSlashes: true,
    PathWithEscapedSlashesAction: "REJECT_REQUEST",
    HeadersWithUnderscoresAction: "DROP_HEADER",
  }, { SanitizeXForwardedClientCert: true }),
  "redirected": mesh({
    PathWithEscapedSlashesAction: "UNESCAPE_AND_REDIRECT",
    HeadersWithUnderscoresAction: "REJECT_REQUEST",
  }),
  "as they come": mesh({ InsecureDisablePathNormalization: true }),
};

/** `[path, answered without options, and with each of them where that is different]`. */
type Row = readonly [path: string, plain: string, ...others: (string | undefined)[]];

const SAME = undefined;
const PATHS: readonly Row[] = [
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
  ["/a/..//denied", "200", "403"],
  ["//denied", "200", "403"],
  ["/x/../denied", "403", SAME, SAME, "200"],
  ["/%64enied", "403", SAME, SAME, "200"],
  ["/a%2fb", "200", "400", "307"],
  ["/a%5Cb", "200", "400", "307"],
  ["/a%2f..%2fdenied?b", "200", "400", "307"],
  ["/a\\b", "200"],
  ["/a\\..\\denied", "403", SAME, SAME, "200"],
  ["/a%25b", "200"],
  ["/a%20b", "200"],
  ["/caf%c3%a9", "200"],
  ["/%41%7e%2D", "200"],
  ["/a;b=c/..;/d", "200"],
  ["/a%zz", "200"],
  ["/a%", "200"],
  ["/a?b=%2f..%00", "200"],
  ["/a?/../b", "200"],
  ["/a%00", "400", SAME, SAME, "200"],
  ["/a^|{}", "200"],
  ['/"<>`', "200"],
];

const WIRES = [["1.1", "http"], ["2", "http2"]] as const;

function cases(at: number): readonly Case[] {
  const own = PATHS.flatMap(([path, plain, ...others]) =>
    WIRES.map(([wire, to]): Case => ({
      name: path,
      to,
      wire,
      ask: get(path),
      want: others[at] ?? plain,
    }))
  );
  const fields = [
    ["who the caller says it is", "x-forwarded-client-cert: By=me"],
    ["an underscore in a name", "x_own: 1"],
    ["an underscore at the end", "x-own_: 1"],
  ] as const;
  const wanted = (name: string, wire: Wire) => {
    if (at !== 1 || !name.startsWith("an underscore")) return "200";
    return wire === "2" ? "503" : "400";
  };
  return [
    ...own,
    ...fields.flatMap(([name, field]) =>
      WIRES.map(([wire, to]): Case => ({
        name,
        to,
        wire,
        ask: get("/", field),
        want: wanted(name, wire),
      }))
    ),
  ];
}

export const paths: Area = { name: "paths", entries: () => [], cases: cases(-1) };

/** Each option with the entry that has to be in force. */
export const optionsOfMesh: readonly (readonly [entry: Json, area: Area])[] = Object.entries(
  OPTIONS,
)
  .map(([name, entry], at) =>
    [
      entry,
      { name: `paths, ${name}`, isMixed: true, entries: () => [], cases: cases(at) },
    ] as const
  );
