/**
 * Intentions of every kind for one service, and requests whose answers show how a proxy applies them:
 * the same requests for Postern and for Envoy.
 *
 * @module
 */

import { readFile } from "node:fs/promises";

type Json = Readonly<Record<string, unknown>>;

/** Under a path of its own each: which match of a header it is about. */
const HEADERS: Readonly<Record<string, Json>> = {
  present: { Present: true },
  absent: { Present: true, Invert: true },
  exact: { Exact: "one" },
  exacti: { Exact: "oNe", IgnoreCase: true },
  notexact: { Exact: "one", Invert: true },
  prefix: { Prefix: "on" },
  prefixi: { Prefix: "ON", IgnoreCase: true },
  suffix: { Suffix: "ne" },
  suffixi: { Suffix: "NE", IgnoreCase: true },
  contains: { Contains: "n" },
  containsi: { Contains: "N", IgnoreCase: true },
  notcontains: { Contains: "n", Invert: true },
  regex: { Regex: "o.e|[0-9]{3}" },
  notregex: { Regex: "o.e", Invert: true },
};

const allow = (http: Json): Json => ({ Action: "allow", HTTP: http });
const deny = (http: Json): Json => ({ Action: "deny", HTTP: http });
const named = (name: string, path: string, match: Json): Json =>
  allow({ PathPrefix: path, Header: [{ Name: name, ...match }] });

export const DESTINATION = "db";

/** Config entries, in the order in which they are to be written. */
export const ENTRIES: readonly Json[] = [
  { Kind: "service-defaults", Name: DESTINATION, Protocol: "http" },
  {
    Kind: "service-intentions",
    Name: DESTINATION,
    Sources: [
      {
        Name: "paths",
        Permissions: [
          deny({ PathPrefix: "/admin", Methods: ["GET"] }),
          allow({ PathExact: "/exact" }),
          allow({ PathPrefix: "/pre/" }),
          allow({ PathRegex: "/r[0-9]+(/x)?" }),
          allow({ PathPrefix: "/post", Methods: ["POST", "PUT"] }),
          deny({ PathExact: "/d/no" }),
          deny({ PathRegex: ".*secret.*" }),
          allow({ PathPrefix: "/d" }),
          allow({ PathExact: "/caf%C3%A9" }),
          allow({ PathExact: "/a b" }),
          allow({ PathRegex: "/(?i)any(case)?" }),
        ],
      },
      {
        Name: "headers",
        Permissions: [
          ...Object.entries(HEADERS).map(([kind, match]) => named("x-a", `/${kind}/`, match)),
          named("X-UPPER", "/upper/", { Exact: "1" }),
          named("host", "/host/", { Exact: "db.test" }),
          named(":authority", "/authority/", { Prefix: "db." }),
          named(":path", "/path/", { Contains: "?q=1" }),
          named(":method", "/method/", { Exact: "PUT" }),
          named("content-length", "/length/", { Exact: "4" }),
          named("cookie", "/cookie/", { Contains: "b=2" }),
          named("upgrade", "/upgrade/", { Exact: "websocket" }),
          named("x-forwarded-client-cert", "/xfcc/", { Contains: "/svc/headers" }),
          named("x-request-id", "/id/", { Present: true }),
          allow({
            PathPrefix: "/both/",
            Methods: ["GET"],
            Header: [{ Name: "x-a", Exact: "one" }, { Name: "x-b", Present: true }],
          }),
          deny({ Header: [{ Name: "x-block", Present: true }] }),
          allow({ PathPrefix: "/rest" }),
        ],
      },
      { Name: "denials", Permissions: [deny({ PathPrefix: "/no" }), deny({ Methods: ["PUT"] })] },
      { Name: "trusted", Action: "allow" },
      { Name: "banned", Action: "deny" },
      { Name: "*", Permissions: [allow({ PathExact: "/health" }), deny({ PathPrefix: "/admin" })] },
    ],
  },
];

export interface Question {
  readonly source: string;
  readonly method: string;
  readonly path: string;
  /** As they are written, `Host` aside. */
  readonly fields: readonly string[];
  readonly body: string;
}

/** The path that reached the application is looked at too, where one did. */
export interface Answer {
  readonly status: number;
  readonly seen?: string | undefined;
}

function ask(source: string, path: string, more: Partial<Question> = {}): Question {
  return { source, path, method: "GET", fields: [], body: "", ...more };
}

const PATHS = [
  "/exact",
  "/exact/",
  "/exact?x=1",
  "/exact?/../admin",
  "/Exact",
  "/exact/.",
  "/exact/../exact",
  "/./exact",
  "//exact",
  "/x/../exact",
  "/%65xact",
  "/exac%74?%65",
  "/exact%3Fx",
  "/exact%2F",
  "/exact;v=1",
  "/exact%00",
  "/exact%",
  "/exact%zz",
  "/exact#x",
  "/\\exact",
  "/x\\..\\exact",
  "/pre/",
  "/pre",
  "/pre?/",
  "/pre/a/../../admin",
  "/pre/%2e%2e/admin",
  "/pre/%2E./exact",
  "/pre/..%2fadmin",
  "/pre//..//admin",
  "/pre/..;/admin",
  "/pre/%252e%252e/admin",
  "/pre/..;x=1/exact",
  "/pre/.;/a",
  "/pre/..%3b/admin",
  "/pre/^|",
  '/pre/"<>{}`',
  "/pre%2Fa",
  "/pre%5Ca",
  "/pre\\a",
  "/../pre/a",
  "/..",
  "/",
  "*",
  "/r1",
  "/r12/x",
  "/r",
  "/r1/",
  "/r1/x/",
  "/r1?y",
  "/r%31",
  "/x/r1",
  "/r1x",
  "/r1%2Fx",
  "/admin",
  "/admin/x",
  "/adm%69n",
  "/ADMIN",
  "//admin",
  "/admin?x",
  "/x/../admin",
  "/admi",
  "/d",
  "/d/no",
  "/d/no/",
  "/d/%6eo",
  "/d/./no",
  "/d/x/../no",
  "/d/secrets",
  "/d/x?secret",
  "/d/%73ecret",
  "/d//no",
  "/caf%C3%A9",
  "/caf%c3%a9",
  "/a%20b",
  "/a b",
  "/any",
  "/AnyCase",
];

const VALUES = [
  [],
  ["one"],
  ["One"],
  ["two"],
  [""],
  ["one", "two"],
  ["two", "one"],
  ["two", "three"],
  ["one,two"],
  [" one "],
];

const WEBSOCKET = ["Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAA"];

export const QUESTIONS: readonly Question[] = [
  ...PATHS.map((path) => ask("paths", path)),
  ...["POST", "PUT", "PATCH", "post", "HEAD"].map((method) => ask("paths", "/post/x", { method })),
  ...["POST", "HEAD", "OPTIONS"].map((method) => ask("paths", "/admin", { method })),
  ask("paths", "*", { method: "OPTIONS" }),
  ...Object.keys(HEADERS).flatMap((kind) =>
    VALUES.map((values) =>
      ask("headers", `/${kind}/`, { fields: values.map((value) => `X-A: ${value}`) })
    )
  ),
  ask("headers", "/regex/", { fields: ["x-a: 123"] }),
  ask("headers", "/exact/", { fields: ["x_a: one"] }),
  ask("headers", "/upper/", { fields: ["x-upper: 1"] }),
  ask("headers", "/host/"),
  ask("headers", "/host/", { fields: ["X-Host: other"] }),
  ask("headers", "/authority/"),
  ask("headers", "/path/?q=1"),
  ask("headers", "/path/?q=2"),
  ask("headers", "/method/", { method: "PUT" }),
  ask("headers", "/method/"),
  ask("headers", "/length/", { method: "POST", body: " abc" }),
  ask("headers", "/length/", { method: "POST", body: " abcd" }),
  ask("headers", "/cookie/", { fields: ["Cookie: a=1", "Cookie: b=2"] }),
  ask("headers", "/cookie/", { fields: ["Cookie: a=1; b=2"] }),
  ask("headers", "/cookie/", { fields: ["Cookie: a=1"] }),
  ask("headers", "/upgrade/", { fields: [...WEBSOCKET, "Upgrade: websocket"] }),
  ask("headers", "/upgrade/"),
  ask("headers", "/xfcc/"),
  ask("headers", "/id/"),
  ask("headers", "/both/", { fields: ["x-a: one", "x-b: "] }),
  ask("headers", "/both/", { fields: ["x-a: one"] }),
  ask("headers", "/both/", { fields: ["x-a: one", "x-b: 1"], method: "POST" }),
  ask("headers", "/rest"),
  ask("headers", "/rest", { fields: ["X-Block: "] }),
  ask("headers", "/none"),
  ...["/no", "/yes", "/nothing"].map((path) => ask("denials", path)),
  ask("denials", "/yes", { method: "PUT" }),
  ...["trusted", "banned", "stranger"].flatMap((source) =>
    ["/health", "/admin", "/other"].map((path) => ask(source, path))
  ),
];

/** How people see a question. */
export function shown({ source, method, path, fields, body }: Question): string {
  const more = fields.length > 0 ? ` (${fields.join("; ")})` : "";
  return `${source}: ${method} ${path}${more}${body}`;
}

/** Asked until it is answered: by then a proxy has all that it needs. */
export const FIRST = ask("trusted", "/");

/** By default policy, and then by {@link shown}. */
export type Recorded = Readonly<Record<"allow" | "deny", Readonly<Record<string, string>>>>;

/** `200 /exact`, `403`. */
export function answerText({ status, seen }: Answer): string {
  return seen === undefined ? `${status}` : `${status} ${seen}`;
}

/** Envoy's answers on a real Consul, recorded by `scripts/record_l7_intentions.ts`. */
export async function recordedAnswers(): Promise<Recorded> {
  return JSON.parse(await readFile(RECORDED, "utf8")) as Recorded;
}

export const RECORDED = new URL("../../fixtures/l7_intentions_envoy.json", import.meta.url);
