/**
 * The plugin `jwt_auth` in front of an endpoint that answers everything.
 *
 * @module
 */

import assert from "node:assert/strict";
import jwtAuth from "../../plugins/jwt_auth/jwt_auth.ts";
import { type Claims, VERIFIED_CLAIMS } from "../../plugins/jwt_auth/claims.ts";
import { type Clock, silentLog, Stats } from "../../src/base/mod.ts";
import type { RequestHead } from "../../src/http/mod.ts";
import type { Exchange } from "../../src/plugin/api.ts";
import { PluginRequest, PluginResponse } from "../../src/plugin/messages.ts";
import { Generation, Onion, SharedState } from "../../src/plugin/mod.ts";
import { ISSUER, type Issuer } from "./tokens.ts";

/** As a configuration names one. */
export function providerOf(issuer: Issuer, more: object = {}): Record<string, unknown> {
  return { issuer: ISSUER, jsonWebKeySet: { local: { jwks: issuer.jwks } }, ...more };
}

export function bearer(token: string): readonly [string, string] {
  return ["authorization", `Bearer ${token}`];
}

export interface Asked {
  readonly status: number;
  /** Why it was not let in. */
  readonly reason: string | undefined;
  readonly challenge: string | undefined;
  /** What an endpoint was sent. */
  readonly sent: PluginRequest | undefined;
  readonly claims: ReadonlyMap<string, Claims> | undefined;
}

export interface Ask {
  readonly path?: string;
  readonly headers?: readonly (readonly [string, string])[];
}

/** `jwt_auth` alone around requests that an endpoint answers with 200. */
export async function mountJwtAuth(
  config: unknown,
  clock: Clock,
): Promise<(ask: Ask) => Promise<Asked>> {
  const generation = await Generation.make({
    listener: "inbound",
    plugins: [{ definition: jwtAuth, config, onFailure: "refuse", at: "inbound.plugins[0]" }],
    routes: [{ route: { name: "default", service: "", match: null }, configs: {}, at: "" }],
    lender: {
      log: silentLog,
      stats: new Stats(),
      clock,
      random: () => 0,
      shared: new SharedState(),
    },
  });
  return async ({ path = "/", headers = [] }) => {
    const head: RequestHead = {
      ...{ method: "GET", scheme: "http", authority: "db", path, upgrade: "", length: 0 },
      ...{ saysLength: false, expectsContinue: false, version: "HTTP/1.1" },
      fields: headers.flatMap(([name, value]) => [name.toLowerCase(), value, name]),
    };
    const state = new Map<unknown, unknown>();
    const exchange = {
      get: (key: unknown) => state.get(key),
      set: (key: unknown, value: unknown) => void state.set(key, value),
    } as unknown as Exchange;
    let sent: PluginRequest | undefined;
    const onion = new Onion({
      exchange,
      guards: generation.guards,
      planOf: (request) => generation.planOf(request),
      sendOn(request, { outcome }) {
        sent = request;
        outcome.settle(
          new PluginResponse({ status: 200, length: 0, fields: [] }, null, {
            endpoint: null,
            failure: null,
          }),
        );
      },
      faulted: ({ name }, what) => assert.fail(`${name}: ${what}`),
    });
    const response = await onion.run(new PluginRequest(head, null));
    return {
      status: response.status,
      reason: response.failure?.reason,
      challenge: response.headers.get("www-authenticate"),
      sent,
      claims: exchange.get(VERIFIED_CLAIMS),
    };
  };
}
