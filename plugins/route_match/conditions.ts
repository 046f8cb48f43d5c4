/**
 * What a route asks for besides a path: methods, headers and parameters of the query, as Envoy matches
 * them.
 *
 * @module
 */

import type { Host, HttpRequest, RouteMatch, ValueMatch } from "../../src/plugin/api.ts";

/** `path`: without query. */
export type Condition = (request: HttpRequest, path: string) => boolean;
/** Of a value; `undefined`: there is none. */
type ValueTest = (value: string | undefined) => boolean;

export async function conditionsOf(match: RouteMatch, host: Host): Promise<Condition[]> {
  const conditions: Condition[] = [];
  if (match.methods.length > 0) {
    const methods = new Set(match.methods);
    conditions.push(({ method }) => methods.has(method));
  }
  for (const header of match.headers) {
    const name = header.name.toLowerCase();
    const test = await testOf(header, host);
    conditions.push((request) => test(headerOf(request, name)));
  }
  for (const query of match.query) {
    const test = await testOf(query, host);
    conditions.push(({ path }) => test(parameterOf(path, query.name)));
  }
  return conditions;
}

async function testOf(match: ValueMatch, host: Host): Promise<ValueTest> {
  const { kind, invert } = match;
  if (kind === "present") return (value) => (value !== undefined) !== invert;
  const is = await textTest({ ...match, kind }, host);
  // What is not there matches nothing, and not its opposite either.
  return (value) => value !== undefined && is(value) !== invert;
}

async function textTest(
  { kind, value, ignoreCase }: ValueMatch & {
    readonly kind: Exclude<ValueMatch["kind"], "present">;
  },
  host: Host,
): Promise<(given: string) => boolean> {
  if (kind === "regex") return await host.regex(value);
  const wanted = ignoreCase ? value.toLowerCase() : value;
  const form = ignoreCase ? (given: string) => given.toLowerCase() : (given: string) => given;
  switch (kind) {
    case "exact":
      return (given) => form(given) === wanted;
    case "prefix":
      return (given) => form(given).startsWith(wanted);
    case "suffix":
      return (given) => form(given).endsWith(wanted);
    case "contains":
      return (given) => form(given).includes(wanted);
  }
}

/** Several of a name are one, in their order. */
function headerOf(request: HttpRequest, name: string): string | undefined {
  switch (name) {
    case "host":
    case ":authority":
      return request.authority;
    case ":method":
      return request.method;
    case ":path":
      return request.path;
    case ":scheme":
      return request.scheme;
    case "content-length":
      return request.body?.length?.toString();
  }
  const all = request.headers.all(name);
  return all.length > 1 ? all.join(",") : all[0];
}

/** The first of that name, as it was written. */
function parameterOf(path: string, name: string): string | undefined {
  const start = path.indexOf("?");
  if (start < 0) return undefined;
  const end = path.indexOf("#", start);
  const query = path.slice(start + 1, end < 0 ? undefined : end);
  for (const part of query.split("&")) {
    const equals = part.indexOf("=");
    if ((equals < 0 ? part : part.slice(0, equals)) !== name) continue;
    return equals < 0 ? "" : part.slice(equals + 1);
  }
  return undefined;
}
