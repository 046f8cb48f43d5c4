/**
 * Logins and logouts over the HTTP API of the server in use. Its reply to a login has the lifetime of the
 * token, which gRPC's lacks: one call in place of two, and the token needs no right.
 *
 * @module
 */

import * as v from "valibot";
import { messageOf, ProxyError, type Stats } from "../../../base/mod.ts";
import type { Carrier } from "../../http/carrier.ts";
import { Client } from "../../http/client.ts";
import { moment, object, readReply, someText, text } from "../../replies/schema.ts";
import type { LoginOptions } from "../types.ts";
import { Buffer } from "node:buffer";
import { closeSync, openSync, readSync, statSync } from "node:fs";
import { hideSecrets } from "../../model/texts.ts";

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
  SecretID: v.pipe(someText, v.check((secret) => SECRET.test(secret), "must be a token")),
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
  const metaField = Object.keys(meta).length > 0 && { Meta: meta };
  const clientWith = (token: string) =>
    new Client({
      pathPrefix: "",
      basicAuth: "",
      stale: false,
      datacenter,
      namespace,
      partition,
    }, { ...deps, token: { current: () => token, onChange: () => () => {}, rejected() {} } });
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
          body: { AuthMethod: authMethod, BearerToken: bearerToken, ...metaField },
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
  const { SecretID: secret, AccessorID: accessorId } = reply;
  return { secret, accessorId, lifeMs: lifeMs > 0 ? lifeMs : undefined };
}

/** Kubernetes' tokens have two thousand bytes, and no longer one fits a header. */
const LIMIT_BYTES = 64 * 1024;

/** Trimmed; fails with `agent_failed`, because a missing or bad file may be mended. */
export function readBearerToken(
  { bearerToken, bearerTokenFile }: Pick<LoginOptions, "bearerToken" | "bearerTokenFile">,
): string {
  if (bearerToken) return bearerToken.trim();
  const cannot = `Cannot log in: the bearer token file ${JSON.stringify(bearerTokenFile)}`;
  let token: string;
  try {
    token = readFile(bearerTokenFile).trim();
  } catch (cause) {
    const message = `${cannot} cannot be read: ${messageOf(cause)}`;
    throw new ProxyError("agent_failed", message, { cause });
  }
  if (token === "") throw new ProxyError("agent_failed", `${cannot} is empty`);
  // deno-lint-ignore no-control-regex -- a bearer token must not have control characters
  if (/[\x00-\x1f\x7f]/.test(token)) {
    throw new ProxyError("agent_failed", `${cannot} has characters that no bearer token has`);
  }
  return token;
}

function readFile(path: string): string {
  // A device or a pipe could be read for ever, or not at all.
  if (!statSync(path).isFile()) throw new Error("it is not a file");
  const file = openSync(path, "r");
  try {
    const bytes = Buffer.alloc(LIMIT_BYTES + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length < bytes.length; length += read) {
      read = readSync(file, bytes, length, bytes.length - length, null);
    }
    if (length > LIMIT_BYTES) throw new Error(`it is longer than ${LIMIT_BYTES} bytes`);
    return bytes.toString("utf8", 0, length);
  } finally {
    closeSync(file);
  }
}

/** The fix for each refusal of Consul; `method` is the quoted name of the auth method. */
const FIXES: readonly (readonly [RegExp, (method: string) => string])[] = [
  [
    /auth method .* not found/,
    (method) => `create ${method}, or is its name in -login-auth-method another?`,
  ],
  [
    /Permission denied/,
    (method) => `no binding rule of ${method} fits what the bearer token says: add one`,
  ],
  [
    /invalid bind name/,
    (method) => `a binding rule of ${method} names a claim that the bearer token does not have`,
  ],
  [/token is expired/, () => "whoever writes the bearer token has to renew it"],
  [/not valid yet/, () => "is the clock of whoever wrote the bearer token ahead of the servers'?"],
  [
    /aud claim/,
    (method) => `have the bearer token made for an audience in BoundAudiences of ${method}`,
  ],
  [/issuer/, (method) => `${method} wants the bearer token of another issuer (BoundIssuer)`],
  [
    /no known key/,
    (method) => `the key that signed the bearer token is none of those that ${method} trusts`,
  ],
  [/error parsing token|missing jwt/, () => "what was given as bearer token is no JWT"],
  [/ACL support disabled/, () => "the servers have no ACLs: leave out -login-auth-method"],
  [/Enterprise feature/, () => "here that is -login-namespace and -login-partition"],
];

/** `error` with the fix, and without the bearer token, which the reply may quote. */
function explainRefusal(
  error: unknown,
  { authMethod, bearerToken }: Pick<LoginOptions, "authMethod" | "bearerToken">,
): ProxyError {
  const code = error instanceof ProxyError ? error.code : "internal";
  const text = hideSecrets(messageOf(error), [bearerToken, ...bearerToken.split(".")]);
  const fix = FIXES.find(([pattern]) => pattern.test(text))?.[1];
  return new ProxyError(code, fix ? `${text} (${fix(JSON.stringify(authMethod))})` : text);
}
