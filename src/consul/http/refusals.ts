/**
 * Refusals of Consul's HTTP API as errors with a code of ours. Consul's own text is kept, because it names
 * the right that is missing; a hint is added where that text does not say what to change.
 *
 * @module
 */

import { type ErrorCode, ProxyError } from "../../base/mod.ts";
import type { FlagNames } from "../model/flag_names.ts";
import { hideSecrets } from "../model/texts.ts";
import type { AnsweringPeer, ConsulCall, WireReply } from "./carrier.ts";
import { ADDRESS_FLAG } from "./unreachable.ts";

interface RefusingPeer {
  readonly peer: AnsweringPeer;
  /** For people: `https://127.0.0.1:8501`. */
  readonly where: string;
  readonly names: FlagNames;
  /** The call's, which may be quoted in the reply. */
  readonly token: string;
}

const ERROR_TEXT_LIMIT = 500;
/** With more text behind it, the refusal is about an auth method. */
const UNKNOWN_TOKEN = /ACL not found(?!: auth method)/;
/** Replies of a 404 that Consul does not give about things that it does not have. */
const FROM_ANOTHER_SERVER =
  /^<|^status 404$|^404 page not found|not a recognized HTTP API endpoint/;

/** A token that has ended gets the same reply. */
export function isUnknownToken({ status, body }: WireReply): boolean {
  return status === 403 && UNKNOWN_TOKEN.test(body);
}

export function refusalOf(
  { status, body }: WireReply,
  call: ConsulCall,
  answering: RefusingPeer,
): ProxyError {
  const text = oneLine(hideSecrets(body, [answering.token])) || `status ${status}`;
  const { peer, where } = answering;
  const error = (code: ErrorCode, fact: string) =>
    new ProxyError(code, `Cannot ${call.what}: ${fact}`);
  const flag = ADDRESS_FLAG[peer];
  if (status === 403) return error("agent_forbidden", text + forbiddenHint(text, call, answering));
  // A gRPC server's answer to any other request.
  if (status === 415) {
    return error("agent_failed", `${where} speaks gRPC; ${flag} wants that of the HTTP API`);
  }
  if (status === 404 && !FROM_ANOTHER_SERVER.test(text)) return error("agent_not_found", text);
  if (status === 404) {
    const fact =
      `nothing answers to ${call.path} at ${where}: it is no Consul ${peer}, or one that ` +
      `is too old; is ${flag} right?`;
    return error("agent_not_found", fact);
  }
  if (status === 429 || (status === 503 && /rate limit exceeded/.test(text))) {
    return error("agent_overloaded", `the ${peer} is overloaded (${text})`);
  }
  const code = /Enterprise feature/.test(text) ? "config_invalid" : "agent_failed";
  const hint = failureHint(text, call, answering);
  return error(code, `the ${peer} answered ${status}: ${text}${hint}`);
}

function forbiddenHint(
  text: string,
  { method, needs }: ConsulCall,
  { peer, names }: RefusingPeer,
): string {
  if (method === "POST" && /Access is restricted/.test(text)) {
    return ` (the ${peer}'s http_config.allow_write_http_from bars POST from this address; ` +
      "this call changes nothing, but Consul takes it for a write: add this host's address there)";
  }
  if (UNKNOWN_TOKEN.test(text)) return ` (the ${peer} does not know the token)`;
  if (/anonymous token/.test(text)) return ` (give one with ${names.token})`;
  return needs && !/lacks permission/.test(text) ? ` (it takes ${needs})` : "";
}

function failureHint(text: string, { query }: ConsulCall, { peer, names }: RefusingPeer): string {
  if (/HTTP request to an HTTPS server/.test(text)) {
    return peer === "agent"
      ? `; write https:// in ${ADDRESS_FLAG.agent}`
      : "; leave out -tls-disabled, or give the port of its HTTP API with -http-port";
  }
  if (/Connect must be enabled/.test(text)) {
    const where = peer === "agent" ? "the Consul servers and this agent" : "the Consul servers";
    return `; set connect { enabled = true } on ${where}`;
  }
  if (/Enterprise feature/.test(text)) return `; leave out ${names.tenancy}`;
  const datacenter = query?.["dc"];
  if (/No path to datacenter/.test(text) && datacenter) {
    return ` ${JSON.stringify(datacenter)}; is that its name, and is it joined?`;
  }
  return "";
}

function oneLine(text: string): string {
  // deno-lint-ignore no-control-regex -- a reply must not forge log lines
  const line = text.replace(/[\x00-\x1f\x7f]+/g, " ").trim();
  return line.length > ERROR_TEXT_LIMIT ? `${line.slice(0, ERROR_TEXT_LIMIT)}...` : line;
}
