/**
 * Why servers give no token, with what mends it. Consul names the fact, seldom whose it is.
 *
 * @module
 */

import { messageOf, ProxyError } from "../../../base/mod.ts";
import { hideSecrets } from "../../hide_secrets.ts";
import type { LoginOptions } from "../types.ts";

type Given = Pick<LoginOptions, "authMethod" | "bearerToken">;

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

/** `error` with the fix, and without the bearer token, which somebody may have sent back. */
export function explainRefusal(error: unknown, { authMethod, bearerToken }: Given): ProxyError {
  const code = error instanceof ProxyError ? error.code : "internal";
  const text = hideSecrets(messageOf(error), [bearerToken, ...bearerToken.split(".")]);
  const fix = FIXES.find(([pattern]) => pattern.test(text))?.[1];
  return new ProxyError(code, fix ? `${text} (${fix(JSON.stringify(authMethod))})` : text);
}
