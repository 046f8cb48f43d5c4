/**
 * Finds tokens in a request, and removes them. All tokens at a location count, so no unverified token is
 * passed on.
 *
 * @module
 */

import type { HttpRequest } from "../../src/plugin/api.ts";
import type { Location } from "./config.ts";

const DEFAULT: readonly Location[] = [
  { header: { name: "authorization", valuePrefix: "Bearer ", forward: false } },
  { queryParam: { name: "access_token" } },
];

export class Locations {
  readonly #all: readonly Location[];

  /** `undefined`: Envoy's default locations. */
  constructor(all: readonly Location[] | undefined) {
    this.#all = all ?? DEFAULT;
  }

  tokensOf(request: HttpRequest): string[] {
    return this.#all.flatMap((location) => {
      if ("header" in location) {
        const { name, valuePrefix } = location.header;
        const values = request.headers.all(name);
        // Fields of the same name form one list, and a list of tokens is not a token.
        return values.length === 0 ? [] : tokenAfter(values.join(","), valuePrefix);
      }
      return "cookie" in location
        ? cookies(request, location.cookie.name)
        : parameters(request.path, location.queryParam.name);
    });
  }

  /** Removes tokens that are not to be sent on; cookies and forwarded headers stay, as in Envoy. */
  without(request: HttpRequest): HttpRequest {
    let left = request;
    for (const location of this.#all) {
      if ("queryParam" in location) {
        const path = withoutParameter(left.path, location.queryParam.name);
        if (path !== left.path) left = left.with({ path });
      }
      if (!("header" in location) || location.header.forward) continue;
      const { name, valuePrefix } = location.header;
      if (tokenAfter(left.headers.all(name).join(","), valuePrefix).length > 0) {
        left = left.with({ headers: { remove: [name] } });
      }
    }
    return left;
  }
}

/** `prefix` matches in any case: authentication schemes are case-insensitive, and applications differ. */
function tokenAfter(value: string, prefix: string): string[] {
  const at = value.toLowerCase().indexOf(prefix.toLowerCase());
  return at < 0 ? [] : [value.slice(at + prefix.length).trim()];
}

function cookies(request: HttpRequest, name: string): string[] {
  return request.headers.all("cookie").flatMap((value) => value.split(";")).flatMap((pair) => {
    const [own = "", ...rest] = pair.split("=");
    return own.trim() === name ? [rest.join("=").trim().replace(/^"(.*)"$/, "$1")] : [];
  });
}

function parameters(path: string, name: string): string[] {
  return pairsOf(path).flatMap((pair) => {
    const [own = "", ...rest] = pair.split("=");
    return decoded(own) === name ? [decoded(rest.join("="))] : [];
  });
}

function withoutParameter(path: string, name: string): string {
  const pairs = pairsOf(path);
  const left = pairs.filter((pair) => decoded(pair.split("=", 1)[0] ?? "") !== name);
  if (left.length === pairs.length) return path;
  const base = path.slice(0, path.indexOf("?"));
  return left.length === 0 ? base : `${base}?${left.join("&")}`;
}

function pairsOf(path: string): string[] {
  const at = path.indexOf("?");
  return at < 0 ? [] : path.slice(at + 1).split("&");
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return text; // not percent-encoded: used unchanged
  }
}
