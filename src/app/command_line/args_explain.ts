/**
 * The command line of `postern explain`: which request, and of which proxy.
 *
 * @module
 */

import { ProxyError } from "../../base/mod.ts";
import type { WhichProxy } from "../commands/find_admin.ts";
import { type FlagGroup, type FlagValues, quote } from "./args_flags.ts";
import { PROXY_CHOICE_FLAGS } from "./args_tables.ts";

export interface ExplainOptions {
  readonly proxy: WhichProxy;
  readonly method: string;
  /** Name or address, with the port where one was written; `undefined`: to the service itself. */
  readonly upstream: string | undefined;
  /** `""`: none was written. */
  readonly host: string;
  /** With its query, as it was written. */
  readonly path: string;
  /** `name: value` each. */
  readonly headers: readonly string[];
  /** `""`: a caller without a certificate. */
  readonly source: string;
  readonly json: boolean;
  /** Instances and the application are connected to. */
  readonly connects: boolean;
}

/** What stands alone. */
export const EXPLAIN_ARGUMENTS = ["METHOD", "URL"] as const;

export const EXPLAIN_FLAGS: readonly FlagGroup[] = [
  {
    title: "Flags",
    flags: [
      {
        name: "H",
        kind: "list",
        value: "HEADER",
        help: "A header of the request, 'name: value'; may be repeated.",
      },
      {
        name: "inbound",
        kind: "switch",
        help: "A request to the service of this proxy, not to an upstream.",
      },
      {
        name: "source",
        kind: "text",
        value: "SERVICE",
        byDefault: "a caller without a certificate",
        help: "The caller, with -inbound: a service of the mesh, or the URI of a certificate.",
      },
      {
        name: "no-connect",
        kind: "switch",
        help: "Do not connect to instances and the application to see whether they are there.",
      },
      { name: "json", kind: "switch", help: "Write the answer as JSON." },
    ],
  },
  { title: "The proxy (one of these)", flags: PROXY_CHOICE_FLAGS },
];

/** The scheme says nothing that the upstream does not know; an upstream of TCP is asked by its name. */
const URL_FORM = /^(?:(?:https?|tcp):\/\/)?(?![a-z]+:\/)([^/?#\s]+)([/?][^#\s]*)?$/i;

/** Throws `usage`, naming what cannot be read. */
export function readExplain(flags: FlagValues, proxy: WhichProxy): ExplainOptions {
  const given = EXPLAIN_ARGUMENTS.flatMap((name) => flags.text(name) ?? []);
  const isInbound = flags.on("inbound");
  const url = given.at(-1) ?? (isInbound ? "/" : undefined);
  if (url === undefined) throw unreadable("no URL was given");
  const [, host = "", rest = "/"] = URL_FORM.exec(url) ?? [];
  const isPath = /^\/[^#\s]*$/.test(url);
  if (host === "" && !isPath) throw unreadable(`the URL ${quote(url)} cannot be read`);
  if (host === "" && !isInbound) {
    throw unreadable(`the URL ${quote(url)} names no upstream`);
  }
  if (!isInbound && flags.given("source")) {
    throw new ProxyError(
      "usage",
      "Cannot use -source without -inbound: towards an upstream the caller is this proxy",
    );
  }
  return {
    proxy,
    method: given.length === 2 ? given[0] ?? "" : "GET",
    upstream: isInbound ? undefined : host,
    host,
    path: isPath ? url : rest.startsWith("?") ? `/${rest}` : rest,
    headers: flags.list("H"),
    source: flags.text("source") ?? "",
    json: flags.on("json"),
    connects: !flags.on("no-connect"),
  };
}

function unreadable(why: string): ProxyError {
  return new ProxyError(
    "usage",
    `Cannot explain: ${why}; want http://UPSTREAM/PATH, or -inbound and /PATH`,
  );
}
