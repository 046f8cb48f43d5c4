/**
 * Admits requests with the password of a known user (RFC 7617), and passes the name of the user on. Its
 * answers are those of Envoy's filter.
 *
 * @module
 */

import * as v from "valibot";
import type { Answer, HttpRequest, Plugin, PluginDefinition } from "../../src/plugin/api.ts";
import { AUTHENTICATED } from "../../src/plugin/verified_claims.ts";
import { readUsers } from "./users.ts";
import { type BasicCredentials, PasswordVerifier } from "./verifier.ts";

const HeaderName = v.pipe(
  v.string(),
  v.regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, "is no header's name"),
  v.toLowerCase(),
  v.check((name) => name !== "authorization", "is the header of the password"),
);
const Config = v.pipe(
  v.strictObject({
    users: v.optional(v.pipe(v.array(v.string()), v.minLength(1))),
    usersFile: v.optional(v.pipe(v.string(), v.regex(/^\//, "is no absolute path"))),
    forwardUsernameHeader: v.optional(HeaderName),
  }),
  v.check(
    ({ users, usersFile }) => (users === undefined) !== (usersFile === undefined),
    "want either users or usersFile",
  ),
);

const REFUSED = {
  missing: "Missing username and password.",
  scheme: "Expected 'Basic' authentication scheme.",
  format: "Invalid basic credential format.",
  wrong: "Invalid username/password combination.",
} as const;
type Refused = keyof typeof REFUSED;

/** Longer credentials are refused unread. */
const MAX_CHARS = 2_048;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

export default {
  name: "basic_auth",
  api: 1,
  phase: "guard",
  config: Config,
  async create(host, { users, usersFile, forwardUsernameHeader: forwarded }): Promise<Plugin> {
    const verifier = new PasswordVerifier(host);
    if (users) verifier.users = readUsers(users);
    if (usersFile !== undefined) {
      const parse = (text: string) => readUsers(text.split("\n"));
      const file = await host.file(usersFile, { parse });
      verifier.users = file.value;
      file.onChange((read) => verifier.users = read);
    }
    const judged = host.stats.counter("requests", {
      help: "Requests by the result of authentication",
      labels: { result: ["allowed", "denied", "busy"] },
    });
    const deny = (request: HttpRequest, why: Refused): Answer => {
      judged.add(1, { result: "denied" });
      return host.refuse("unauthenticated", `User authentication failed. ${REFUSED[why]}`)
        .with({ headers: { set: { "www-authenticate": challenge(request) } } });
    };
    return {
      onRequest({ request, exchange }, next) {
        const credentials = credentialsOf(request.headers.all("authorization"));
        if (typeof credentials === "string") return deny(request, credentials);
        return verifier.check(credentials).then((verdict) => {
          if (verdict === "wrong") return deny(request, "wrong");
          judged.add(1, { result: verdict === "right" ? "allowed" : "busy" });
          if (verdict === "busy") {
            return host.refuse("overloaded", "too many passwords wait for their check");
          }
          const { user } = credentials;
          exchange.set(AUTHENTICATED, user);
          if (forwarded === undefined) return next();
          return next({ request: request.with({ headers: { set: { [forwarded]: user } } }) });
        });
      },
    };
  },
} satisfies PluginDefinition<typeof Config>;

/** A text says why there are none. */
function credentialsOf(values: readonly string[]): BasicCredentials | Refused {
  const [value, ...others] = values;
  if (value === undefined) return "missing";
  // An application could take another one than the proxy.
  if (others.length > 0) return "format";
  if (value.slice(0, 6).toLowerCase() !== "basic ") return "scheme";
  const text = value.slice(6).trim();
  if (text.length > MAX_CHARS || text.length % 4 === 1 || !BASE64.test(text)) return "format";
  let pair: string;
  try {
    pair = atob(text);
  } catch {
    return "format"; // it has the wrong padding
  }
  const colon = pair.indexOf(":");
  const whole = Uint8Array.from(pair, (char) => char.charCodeAt(0));
  if (colon < 0 || whole.some(isControl)) return "format";
  return { user: pair.slice(0, colon), password: whole.subarray(colon + 1), whole };
}

function isControl(byte: number): boolean {
  return byte < 0x20 || byte === 0x7f;
}

/** The challenge in Envoy's form. */
function challenge({ scheme, authority, path }: HttpRequest): string {
  const [base = ""] = path.split("?", 1);
  const realm = `${scheme || "http"}://${authority}${base}`.slice(0, 256).replace(/["\\]/g, "");
  return `Basic realm="${realm}"`;
}
