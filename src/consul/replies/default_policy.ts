/**
 * Verdicts of Consul's authorize call. An agent's verdict on one connection can only add a refusal to our
 * own verdict, never replace it: an agent stops following changed intentions after a while.
 *
 * The default policy holds where no intention covers a source, and Consul gives two answers about it.
 * Envoy gets `default_intention_policy`, or `acl.default_policy` where that is not set, whether ACLs are
 * enabled or not. The authorize call gets the second part wrong: without ACLs it allows everything.
 * Every HTTP response carries `acl.default_policy` in a header, so both are known without a further
 * right (`/v1/agent/self` takes agent:read), and both must allow.
 *
 * `intentions/check` would fail open: it ignores `default_intention_policy`. The authorize call is sent
 * about a namespace that no intention names; no intention changes that answer, so it does not freeze.
 *
 * @module
 */

import * as v from "valibot";
import type { Log } from "../../base/mod.ts";
import type { Client } from "../http/client.ts";
import type { DefaultPolicyRequest } from "../model/consul.ts";
import type { RepeatQuestion } from "../watch/repeat.ts";
import { readReply, renamed, text } from "./schema.ts";

/** The policy changes with the agent's configuration only, hence with a restart, which is noticed. */
const INTERVAL_MS = 180_000;
const TIMEOUT_MS = 10_000;

/** The reason of an answer by `default_intention_policy`. */
const BY_POLICY = "Default intention policy";
/** The reason of an answer by the ACLs, where `default_intention_policy` is not set. */
const BY_ACLS = "Default behavior configured by ACLs";

const AuthorizeReply = renamed({ allowed: ["Authorized", v.boolean()], reason: ["Reason", text] });

interface AuthorizeVerdict {
  readonly allowed: boolean;
  readonly reason: string;
  /** `acl.default_policy` of the answering node, ACLs enabled or not; `""`: not known. */
  readonly aclDefault: string;
}

export function readAuthorize(json: unknown): Omit<AuthorizeVerdict, "aclDefault"> {
  return readReply(AuthorizeReply, json, "authorization");
}

export async function askAuthorize(
  client: Client,
  request: {
    readonly resource: string;
    readonly target: string;
    readonly uri: string;
    readonly serial: string;
    readonly timeoutMs: number;
    readonly signal?: AbortSignal;
    readonly lastDigest?: string;
  },
): Promise<AuthorizeVerdict> {
  const { target, uri, serial, ...terms } = request;
  const { json, defaultAclPolicy } = await client.call({
    ...terms,
    what: `ask the ${client.carrier.peer} who may connect to ${JSON.stringify(target)}`,
    method: "POST",
    path: "/v1/agent/connect/authorize",
    body: { Target: target, ClientCertURI: uri, ClientCertSerial: serial },
  });
  return { ...readAuthorize(json), aclDefault: defaultAclPolicy };
}

interface DefaultPolicy {
  readonly action: "allow" | "deny";
  /** Why it is deny although authorize allows; `""`: the two agree. */
  readonly contradiction: string;
}

export function defaultOf({ allowed, reason, aclDefault }: AuthorizeVerdict): DefaultPolicy {
  if (!allowed) return { action: "deny", contradiction: "" };
  switch (reason) {
    case BY_POLICY:
      return { action: "allow", contradiction: "" };
    case BY_ACLS:
      if (aclDefault === "allow") return { action: "allow", contradiction: "" };
      return {
        action: "deny",
        contradiction: aclDefault === ""
          ? "the response does not tell acl.default_policy"
          : `acl.default_policy is ${JSON.stringify(aclDefault.slice(0, 20))}`,
      };
    default:
      // A rule that covers even this source leaves nothing to the default.
      return { action: "deny", contradiction: `authorize answers ${JSON.stringify(reason)}` };
  }
}

export function defaultPolicyQuestion(
  client: Client,
  request: DefaultPolicyRequest & { readonly log: Log },
): RepeatQuestion<"allow" | "deny"> {
  const { service, trustDomain, datacenter, log } = request;
  let logged = "";
  return {
    name: `default policy ${service}`,
    resource: "default_policy",
    kind: "call",
    intervalMs: INTERVAL_MS,
    askAfterLoss: true,
    async ask(signal) {
      const verdict = await askAuthorize(client, {
        resource: "default_policy",
        target: service,
        uri: `spiffe://${trustDomain}/ns/postern-probe/dc/${datacenter}/svc/x`,
        serial: "00",
        timeoutMs: TIMEOUT_MS,
        signal,
        lastDigest: "",
      });
      const { action, contradiction } = defaultOf(verdict);
      if (contradiction !== "" && contradiction !== logged) {
        log.info("callers that no intention covers are denied", {
          reason: contradiction,
          change: "default_intention_policy or acl.default_policy of the Consul that answers",
        });
      }
      logged = contradiction;
      return action;
    },
  };
}
