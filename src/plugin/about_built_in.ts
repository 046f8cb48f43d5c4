/**
 * What authors are told: the plugins inside the executable, and the contract.
 *
 * @module
 */

import type { Phase } from "./api.ts";
import { BUILT_IN_NAMES, loadBuiltIn } from "./built_in.ts";
import { PHASES } from "./registry.ts";

/** What each is for, in a line. */
const ABOUT: Readonly<Record<string, string>> = {
  access_log: "writes a line for each request, in a format of its own",
  compression: "compresses the bodies of responses",
  cors: "lets pages of other origins ask",
  ext_authz: "asks a service whether a request may pass",
  fault: "delays and aborts requests, to see who bears it",
  header_rules: "removes, sets and adds headers of requests and responses",
  in_flight_limit: "turns requests away while too many are under way",
  jwt_auth: "asks callers for a token, and judges it",
  mirror: "sends copies of requests to somebody else",
  path_rewrite: "sends requests on with another path",
  rate_limit: "turns requests away that come too fast",
  redirect: "sends callers elsewhere by rules",
  retry: "sends a request again where that can help",
  route_match: "picks the route of a request",
  timeout: "gives up on what takes too long",
};

export interface BuiltInSummary {
  readonly name: string;
  readonly phase: Phase;
  readonly about: string;
}

/** In the order in which they stand around a request. */
export async function aboutBuiltIn(): Promise<readonly BuiltInSummary[]> {
  const all = await Promise.all(BUILT_IN_NAMES.map(async (name): Promise<BuiltInSummary> => {
    const phase = (await loadBuiltIn(name))?.phase ?? "filter";
    return { name, phase, about: ABOUT[name] ?? "" };
  }));
  const rank = ({ phase }: BuiltInSummary) => PHASES.indexOf(phase);
  return all.sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1));
}

/** The contract between the proxy and a plugin, as TypeScript. */
export async function contractText(): Promise<string> {
  return (await import("./contract_text.ts")).CONTRACT_TEXT;
}
