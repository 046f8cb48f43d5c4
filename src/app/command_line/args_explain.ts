/**
 * The command line of `postern explain`: a request, and the proxy that explains it.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import type { ExplainOptions } from "../commands/run_explain.ts";
import type { WhichProxy } from "../process/find_admin.ts";
import { type FlagValues, quote } from "../flags/parse_flags.ts";

/** Names of the arguments without a flag. */
export const EXPLAIN_ARGUMENTS = ["METHOD", "URL"] as const;

/** The scheme is optional and changes nothing: the upstream has its protocol. */
const URL_FORM = /^(?:(?:https?|tcp):\/\/)?(?![a-z]+:\/)([^/?#\s]+)([/?][^#\s]*)?$/i;

/** An id as listed, with a path where one follows: `db?dc=dc2`, `service:default/default/db/orders`. */
const ID_FORM = new RegExp(
  "^((?:service:[^/?#\\s]+/[^/?#\\s]+/[^/?#\\s]+|prepared_query:[^/?#\\s]+|" +
    "ingress:\\d+/[^/?#\\s]+)(?:\\?(?:dc|peer)=[^/?#&\\s]+)?|" +
    "[^:/?#\\s]+\\?(?:dc|peer)=[^/?#&\\s]+)([/?][^#\\s]*)?$",
);

/** Throws `usage`, naming the argument that cannot be read. */
export function readExplain(flags: FlagValues, proxy: WhichProxy): ExplainOptions {
  const given = EXPLAIN_ARGUMENTS.flatMap((name) => flags.text(name) ?? []);
  const isInbound = flags.on("inbound");
  if (!isInbound && flags.given("source")) {
    throw new ProxyError(
      "usage",
      "Cannot use -source without -inbound: towards an upstream the caller is this proxy",
    );
  }
  return {
    proxy,
    method: given.length === 2 ? given[0] ?? "" : "GET",
    ...readTarget(given.at(-1) ?? (isInbound ? "/" : undefined), isInbound),
    headers: flags.list("H"),
    source: flags.text("source") ?? "",
    json: flags.on("json"),
    connects: !flags.on("no-connect"),
  };
}

function readTarget(
  url: string | undefined,
  isInbound: boolean,
): Pick<ExplainOptions, "upstream" | "host" | "path"> {
  if (url === undefined) throw unreadable("no URL was given");
  const [, id, ofId] = isInbound ? [] : ID_FORM.exec(url) ?? [];
  if (id !== undefined) return { upstream: id, host: "", path: pathOf(ofId) };
  const [, host = "", rest] = URL_FORM.exec(url) ?? [];
  if (host !== "") return { upstream: isInbound ? undefined : host, host, path: pathOf(rest) };
  if (!/^\/[^#\s]*$/.test(url)) throw unreadable(`the URL ${quote(url)} cannot be read`);
  if (!isInbound) throw unreadable(`the URL ${quote(url)} names no upstream`);
  return { upstream: undefined, host: "", path: url };
}

function pathOf(rest = "/"): string {
  return rest.startsWith("?") ? `/${rest}` : rest;
}

function unreadable(why: string): ProxyError {
  return new ProxyError(
    "usage",
    `Cannot explain: ${why}; want http://UPSTREAM/PATH, an upstream's id, or -inbound and /PATH`,
  );
}
