/**
 * Calls the authorization service by HTTP, with the caller's method and path and the selected headers. 200
 * lets the request pass, 5xx is a failure, and any other response is sent to the caller.
 *
 * @module
 */

import type { Headers, Host, HttpResponse } from "../../src/plugin/api.ts";
import type { AuthzHttpService } from "./config.ts";
import { type Matches, matchesAny } from "./header_matchers.ts";
import {
  ANSWER_LIMIT_BYTES,
  type AskAuthz,
  type AuthzVerdict,
  errorOf,
  mutated,
  type Mutation,
  PARTIAL_BODY,
} from "./verdict.ts";

const REMOVE = "x-envoy-auth-headers-to-remove";

interface Chosen {
  readonly upstream: Matches;
  readonly append: Matches;
  readonly client: Matches;
  readonly clientOnSuccess: Matches;
}

export async function askByHttp(service: AuthzHttpService, host: Host): Promise<AskAuthz> {
  const { target, timeoutMs, pathPrefix, authorizationRequest } = service;
  const call = host.callee(target);
  const allowed = await matchesAny(authorizationRequest.allowedHeaders, host);
  const chosen = await chosenOf(service, host);
  const { headersToAdd } = authorizationRequest;
  const none = host.reply(200).headers;
  none.with({ set: headersToAdd });
  return async ({ request, body, signal }) => {
    const { method, authority, path, headers } = request;
    const own = body ? { ...headersToAdd, [PARTIAL_BODY]: String(body.isPartial) } : headersToAdd;
    const response = await call({
      method,
      authority,
      path: pathPrefix + path,
      headers: mutated(none, shownOf(headers, allowed)).with({ set: own }),
      body: body?.whole() ?? null,
    }, { timeoutMs, limitBytes: ANSWER_LIMIT_BYTES, signal });
    return response.failure ? errorOf(response.failure) : await verdictOf(response, chosen);
  };
}

async function chosenOf(
  { authorizationResponse: of }: AuthzHttpService,
  host: Host,
): Promise<Chosen> {
  const client = await matchesAny(of.allowedClientHeaders, host);
  const isAll = of.allowedClientHeaders.length === 0;
  return {
    upstream: await matchesAny(of.allowedUpstreamHeaders, host),
    append: await matchesAny(of.allowedUpstreamHeadersToAppend, host),
    client: (name) => isAll || client(name) || ALWAYS_TOLD.has(name),
    clientOnSuccess: await matchesAny(of.allowedClientHeadersOnSuccess, host),
  };
}

const ALWAYS_TOLD: ReadonlySet<string> = new Set(["www-authenticate", "location"]);

function shownOf(headers: Headers, allowed: Matches): Mutation[] {
  const isShown = (name: string) => name === "authorization" || allowed(name);
  return [...headers]
    .filter(([name]) => isShown(name) && name !== PARTIAL_BODY && name !== "te")
    .map(([name, value]) => ({ how: "add", name, value }));
}

async function verdictOf(response: HttpResponse, chosen: Chosen): Promise<AuthzVerdict> {
  const { status, headers, body } = response;
  if (status >= 500) return errorOf({ code: "status", reason: `it answered with ${status}` });
  const remove = headers.all(REMOVE).flatMap((value) => value.split(","));
  const all = [...headers].filter(([name]) => name !== REMOVE);
  const those = (how: Mutation["how"], matches: Matches) =>
    all.filter(([name]) => matches(name)).map(([name, value]) => ({ how, name, value }));
  if (status !== 200) {
    const bytes = body ? await body.bytes(ANSWER_LIMIT_BYTES) : null;
    return { kind: "denied", status, headers: those("add", chosen.client), body: bytes };
  }
  return {
    kind: "ok",
    request: {
      headers: [...those("set", chosen.upstream), ...those("add", chosen.append)],
      remove: remove.map((name) => name.trim()).filter((name) => name !== ""),
    },
    response: those("add", chosen.clientOnSuccess),
  };
}
