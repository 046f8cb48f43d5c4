/**
 * Logins and logouts over the HTTP API of the server in use. Its reply to a login has the lifetime of the
 * token, which gRPC's lacks: one call in place of two, and the token needs no right.
 * @module
 */

import * as v from "valibot";
import { ProxyError, type Stats } from "../../../base/mod.ts";
import type { Carrier } from "../../http/carrier.ts";
import { Client } from "../../http/client.ts";
import { moment, object, readReply, someText, text } from "../../replies/schema.ts";
import type { LoginOptions } from "../types.ts";
import { explainRefusal, readBearerToken } from "./bearer_token.ts";

export interface Login {
  readonly secret: string;
  /** Names the token for people; it opens nothing. `""`: not known. */
  readonly accessorId: string;
  /** Lifetime by the servers' clock; undefined: unlimited, or not known. */
  readonly lifeMs: number | undefined;
}

export interface LoginCalls {
  /** Reads the bearer token again. Rejects with the reason why there is no token, and with a fix. */
  logIn(): Promise<Login>;
  /** A token that has ended already is no failure. */
  logOut(secret: string): Promise<void>;
}

/** A leader is elected within seconds. */
const LOGIN_TIMEOUT_MS = 10_000;
const LOGOUT_TIMEOUT_MS = 5_000;
const SECRET = /^[\x21-\x7e]{1,512}$/;

const LoginReply = object({
  // The token goes into a header; a message about an invalid one does not quote it.
  SecretID: v.pipe(
    someText,
    v.check((secret) => SECRET.test(secret), "must be a token"),
  ),
  AccessorID: v.fallback(v.pipe(text, v.regex(/^[\w-]{1,64}$/)), ""),
  CreateTime: v.nullish(moment),
  ExpirationTime: v.nullish(moment),
});

export function createLoginCalls(
  options: LoginOptions,
  deps: { readonly carrier: Carrier; readonly stats: Stats },
): LoginCalls {
  const { authMethod, meta, namespace, partition, datacenter } = options;
  const what = `log in by ${JSON.stringify(authMethod)}`;
  const clientWith = (token: string) =>
    new Client({
      pathPrefix: "",
      basicAuth: "",
      stale: false,
      datacenter,
      namespace,
      partition,
    }, {
      ...deps,
      token: { current: () => token, onChange: () => () => {}, rejected() {} },
    });
  return {
    async logIn() {
      const bearerToken = readBearerToken(options);
      try {
        const { json } = await clientWith("").call({
          resource: "login",
          what,
          method: "POST",
          path: "/v1/acl/login",
          query: { dc: datacenter },
          body: {
            AuthMethod: authMethod,
            BearerToken: bearerToken,
            ...(Object.keys(meta).length > 0 && { Meta: meta }),
          },
          timeoutMs: LOGIN_TIMEOUT_MS,
        });
        return readLogin(json);
      } catch (error) {
        throw explainRefusal(error, { ...options, bearerToken });
      }
    },
    async logOut(secret) {
      try {
        await clientWith(secret).call({
          resource: "logout",
          what: "log out",
          method: "POST",
          path: "/v1/acl/logout",
          query: { dc: datacenter },
          timeoutMs: LOGOUT_TIMEOUT_MS,
        });
      } catch (error) {
        if (!(error instanceof ProxyError && error.code === "agent_forbidden")) throw error;
      }
    },
  };
}

export function readLogin(json: unknown): Login {
  const reply = readReply(LoginReply, json, "the login");
  const { CreateTime: fromMs, ExpirationTime: untilMs } = reply;
  // The difference of two times of one clock holds here, too, whatever our clock shows.
  const lifeMs = typeof fromMs === "number" && typeof untilMs === "number" ? untilMs - fromMs : 0;
  return {
    secret: reply.SecretID,
    accessorId: reply.AccessorID,
    lifeMs: lifeMs > 0 ? lifeMs : undefined,
  };
}
