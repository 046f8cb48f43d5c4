/**
 * Schemas for Consul's JSON: one per reply, unknown fields ignored. Consul leaves out empty values and
 * writes `null` for empty lists, so both mean empty everywhere.
 *
 * @module
 */

import * as v from "valibot";
import { issueWords, parseDurationMs, ProxyError } from "../../base/mod.ts";
import { isRecord } from "../../base/schema.ts";

const MESSAGE_LIMIT = 500;

/** A text; absent and null are `""`. */
export const text = v.nullish(v.string(), "");
export const someText = v.pipe(v.string(), v.nonEmpty("must not be empty"));
export const flag = v.nullish(v.boolean(), false);
export const port = v.nullish(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(65535)), 0);
export const count = v.nullish(v.pipe(v.number(), v.integer()), 0);
// deno-lint-ignore explicit-module-boundary-types -- the schema is its own type
export const list = <const S extends v.GenericSchema>(item: S) => v.nullish(v.array(item), []);
/** An object with at least these keys; a list, which Valibot would accept, is refused. */
// deno-lint-ignore explicit-module-boundary-types -- the schema is its own type
export const object = <const E extends v.ObjectEntries>(entries: E) =>
  v.pipe(v.unknown(), v.check(isRecord, "must be an object"), v.object(entries));
type Fields = Readonly<Record<string, readonly [key: string, schema: v.GenericSchema]>>;
type Renamed<F extends Fields> = { readonly [Name in keyof F]: v.InferOutput<F[Name][1]> };
/** An {@link object} whose fields have our names; each is given with Consul's name and its schema. */
export function renamed<const F extends Fields>(fields: F): v.GenericSchema<unknown, Renamed<F>> {
  const names = Object.entries(fields).map(([name, [key]]) => [name, key] as const);
  return v.pipe(
    object(Object.fromEntries(Object.values(fields))),
    v.transform((read) =>
      Object.fromEntries(names.map(([name, key]) => [name, read[key]])) as Renamed<F>
    ),
  );
}
/** An object with at least these keys, which keeps its other keys. */
// deno-lint-ignore explicit-module-boundary-types -- the schema is its own type
export const openObject = <const E extends v.ObjectEntries>(entries: E) =>
  v.pipe(v.unknown(), v.check(isRecord, "must be an object"), v.looseObject(entries));
// deno-lint-ignore explicit-module-boundary-types -- the schema is its own type
export const map = <const S extends v.GenericSchema>(item: S) =>
  v.nullish(
    v.pipe(v.unknown(), v.check(isRecord, "must be an object"), v.record(v.string(), item)),
    {},
  );

/** A name of Enterprise's, which Community Edition leaves out. */
export const tenancy = v.pipe(text, v.transform((name) => name || "default"));
/** The `Mode` of a block; `""` where there is none. */
export const mode = v.pipe(v.nullish(object({ Mode: text }), {}), v.transform(({ Mode }) => Mode));

/** A moment as Go writes it, as milliseconds. */
export const moment = v.pipe(
  v.string(),
  v.transform((written) => Date.parse(written)),
  v.number("must be a time"),
  v.check((ms) => Number.isFinite(ms), "must be a time"),
);

/** A Go duration text or integer nanoseconds, as milliseconds; absent is 0. */
export const duration = v.pipe(
  v.nullish(v.union([v.string(), v.number()]), 0),
  v.transform(durationMs),
  v.check((ms) => ms !== undefined, "must be a duration"),
  v.transform((ms) => ms ?? 0),
);

/** Milliseconds of a Go duration text or of integer nanoseconds. */
export function durationMs(written: string | number): number | undefined {
  if (typeof written === "number") return Number.isFinite(written) ? written / 1e6 : undefined;
  return written === "" ? 0 : parseDurationMs(written);
}

/** The checked value; fails with `agent_reply_invalid`, naming the reply and the field. */
export function readReply<const S extends v.GenericSchema>(
  schema: S,
  json: unknown,
  what: string,
): v.InferOutput<S> {
  const result = v.safeParse(schema, json, { abortEarly: true });
  if (result.success) return result.output;
  const issue = result.issues[0];
  throw replyInvalid(what, `${v.getDotPath(issue) ?? "the reply"} ${issueWords(issue)}`);
}

export function replyInvalid(what: string, fact: string): ProxyError {
  const message = `Cannot use Consul's answer about ${what}: ${fact}`;
  return new ProxyError("agent_reply_invalid", message.slice(0, MESSAGE_LIMIT));
}
