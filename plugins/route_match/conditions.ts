/**
 * The conditions of a route besides its path: methods, headers and query parameters, matched as in Envoy.
 *
 * @module
 */

import type { Host, HttpRequest, RouteMatch, ValueMatch } from "../../src/plugin/api.ts";

/** `path`: the path without the query. */
export type RouteCondition = (request: HttpRequest, path: string) => boolean;
/** Tests all values of one name. */
type ValuesTest = (values: readonly string[]) => boolean;

export async function conditionsOf(match: RouteMatch, host: Host): Promise<RouteCondition[]> {
  const conditions: RouteCondition[] = [];
  if (match.methods.length > 0) {
    const methods = new Set(match.methods);
    conditions.push(({ method }) => methods.has(method));
  }
  for (const header of match.headers) {
    const name = header.name.toLowerCase();
    const test = await testOf(header, host);
    conditions.push((request) => test(valuesOf(request, name)));
  }
  for (const query of match.query) {
    const test = await testOf(query, host);
    conditions.push(({ path }) => test(firstParameter(path, query.name)));
  }
  return conditions;
}

async function testOf(match: ValueMatch, host: Host): Promise<ValuesTest> {
  const { kind, invert } = match;
  if (kind === "present") return (values) => (values.length > 0) !== invert;
  const is = await textTest({ ...match, kind }, host);
  // One matching value is enough. An absent field matches neither a condition nor its inversion.
  return (values) => values.length > 0 && values.some(is) !== invert;
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

function valuesOf(request: HttpRequest, name: string): readonly string[] {
  switch (name) {
    case "host":
    case ":authority":
      return [request.authority];
    case ":method":
      return [request.method];
    case ":path":
      return [request.path];
    case ":scheme":
      return [request.scheme];
    case "content-length": {
      const length = request.body?.length;
      return typeof length === "number" ? [String(length)] : [];
    }
  }
  return request.headers.all(name);
}

/** The raw value of the first parameter of that name. */
function firstParameter(path: string, name: string): readonly string[] {
  const start = path.indexOf("?");
  if (start < 0) return [];
  const end = path.indexOf("#", start);
  const query = path.slice(start + 1, end < 0 ? undefined : end);
  for (const part of query.split("&")) {
    const equals = part.indexOf("=");
    if ((equals < 0 ? part : part.slice(0, equals)) !== name) continue;
    return [equals < 0 ? "" : part.slice(equals + 1)];
  }
  return [];
}
