/** Finds the key of a request, and removes it. A key that is there twice at one place is no key. @module */

import * as v from "valibot";
import type { HttpRequest } from "../../src/plugin/api.ts";

const Name = v.pipe(
  v.string(),
  v.regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, "is no name of a header, parameter or cookie"),
);
export const ApiKeySource = v.union([
  v.strictObject({ header: v.pipe(Name, v.toLowerCase()) }),
  v.strictObject({ query: Name }),
  v.strictObject({ cookie: Name }),
]);
type ApiKeySource = v.InferOutput<typeof ApiKeySource>;

const BEARER = "Bearer ";

export class KeySources {
  readonly #all: readonly ApiKeySource[];

  constructor(all: readonly ApiKeySource[]) {
    this.#all = all;
  }

  /** The scheme of the challenge; only that of `authorization` is registered. */
  get scheme(): "Bearer" | "ApiKey" {
    const isBearer = (source: ApiKeySource) =>
      "header" in source && source.header === "authorization";
    return this.#all.some(isBearer) ? "Bearer" : "ApiKey";
  }

  /** The key at the first place that has one; `undefined`: there is none, or more than one at that place. */
  keyIn(request: HttpRequest): string | undefined {
    for (const source of this.#all) {
      const [key, ...others] = keysAt(source, request).filter((value) => value !== "");
      if (key !== undefined) return others.length === 0 ? key : undefined;
    }
    return undefined;
  }

  without(request: HttpRequest): HttpRequest {
    return this.#all.reduce(withoutSource, request);
  }
}

function keysAt(source: ApiKeySource, { headers, path }: HttpRequest): string[] {
  if ("header" in source) {
    return headers.all(source.header).map((value) =>
      value.startsWith(BEARER) ? value.slice(BEARER.length) : value
    );
  }
  if ("query" in source) {
    return pairsOf(path).filter(([name]) => decoded(name) === source.query)
      .map(([, value]) => decoded(value));
  }
  return cookiesOf(headers.all("cookie")).filter(([name]) => name === source.cookie)
    .map(([, value]) => value);
}

function withoutSource(request: HttpRequest, source: ApiKeySource): HttpRequest {
  const { headers, path } = request;
  if ("header" in source) return request.with({ headers: { remove: [source.header] } });
  if ("query" in source) {
    const all = pairsOf(path);
    const left = all.filter(([name]) => decoded(name) !== source.query);
    if (left.length === all.length) return request;
    const query = left.map(([, , text]) => text).join("&");
    return request.with({ path: `${path.slice(0, path.indexOf("?"))}${query && "?"}${query}` });
  }
  const all = cookiesOf(headers.all("cookie"));
  const left = all.filter(([name]) => name !== source.cookie);
  if (left.length === all.length) return request;
  const cookie = left.map(([name, value]) => `${name}=${value}`).join("; ");
  return request.with({
    headers: cookie === "" ? { remove: ["cookie"] } : { set: { cookie } },
  });
}

type Pair = readonly [name: string, value: string, text: string];

function pairsOf(path: string): Pair[] {
  const at = path.indexOf("?");
  return at < 0 ? [] : path.slice(at + 1).split("&").map((text) => pairOf(text, text));
}

function cookiesOf(values: readonly string[]): Pair[] {
  return values.flatMap((value) => value.split(";")).map((text) => pairOf(text.trim(), text));
}

function pairOf(trimmed: string, text: string): Pair {
  const at = trimmed.indexOf("=");
  return at < 0 ? [trimmed, "", text] : [trimmed.slice(0, at), trimmed.slice(at + 1), text];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return text; // not percent-encoded: used unchanged
  }
}
