import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { isRecord } from "../../base/schema.ts";
import { configJsonSchema, type JsonSchema } from "./config_json_schema.ts";

/** The faults of a value, by the keywords that the schema uses. */
function faults(schema: JsonSchema, value: unknown, path = ""): string[] {
  const { type, properties, required, items, anyOf, pattern, minimum, maximum } = schema;
  const isType = type === undefined || typeof value === type ||
    type === "array" && Array.isArray(value) || type === "integer" && Number.isInteger(value);
  if (!isType) return [`${path}: no ${type}`];
  if (Array.isArray(schema.enum) && !schema.enum.includes(value)) return [`${path}: none of enum`];
  if ("const" in schema && schema.const !== value) return [`${path}: not ${schema.const}`];
  if (Array.isArray(anyOf) && anyOf.every((one) => faults(one, value, path).length > 0)) {
    return [`${path}: none of anyOf`];
  }
  if (typeof value === "string" && pattern && !new RegExp(String(pattern), "u").test(value)) {
    return [`${path}: not of the pattern ${pattern}`];
  }
  if (Number(minimum) > Number(value) || Number(maximum) < Number(value)) return [`${path}: range`];
  if (Array.isArray(value)) {
    return value.flatMap((item, index) =>
      faults((items ?? {}) as JsonSchema, item, `${path}/${index}`)
    );
  }
  if (!isRecord(value) || !isRecord(properties)) return [];
  const missing = (required as readonly string[] ?? []).filter((key) => !(key in value));
  return [
    ...missing.map((key) => `${path}/${key}: missing`),
    ...Object.entries(value).flatMap(([key, one]) => {
      const below = properties[key];
      return isRecord(below) ? faults(below, one, `${path}/${key}`) : [`${path}/${key}: unknown`];
    }),
  ];
}

const DOCS = join(import.meta.dirname ?? ".", "..", "..", "..", "docs");

for (const page of ["without-consul.md", "credentials.md", "http.md", "l7-intentions.md"]) {
  test(`configJsonSchema() takes the examples of ${page}`, () => {
    const text = readFileSync(join(DOCS, page), "utf8");
    for (const [, json = ""] of text.matchAll(/<!-- example: config -->\s+```json\n(.*?)```/gs)) {
      assert.deepEqual(faults(configJsonSchema(), JSON.parse(json)), [], json);
    }
  });
}

const BASE = {
  service: "web",
  upstreams: [{ name: "db", bind: ":1", addresses: ["a:1", { host: "b", port: 1 }] }],
};
for (
  const [name, value, want] of [
    ["nothing", {}, ["/service: missing"]],
    ["an unknown key", { ...BASE, servce: "x" }, ["/servce: unknown"]],
    ["a wrong type", { ...BASE, service: 1 }, ["/service: no string"]],
    ["a value of no choice", { ...BASE, defaultAction: "maybe" }, ["/defaultAction: none of enum"]],
    ["a number out of range", {
      ...BASE,
      upstreams: [{ ...BASE.upstreams[0], addresses: [{ host: "a", port: 0 }] }],
    }, ["/upstreams/0/addresses/0: none of anyOf"]],
  ] as const
) {
  test(`configJsonSchema() refuses ${name}`, () => {
    assert.deepEqual(faults(configJsonSchema(), BASE), []);
    assert.deepEqual(faults(configJsonSchema(), value), want);
  });
}
