/**
 * Example: signs each request with a key shared with the application, which can verify that the proxy sent the
 * request and that method, host and path are unchanged. The body is not signed.
 *
 * @module
 */

import * as v from "valibot";
import type { HttpRequest, Plugin, PluginDefinition } from "../../src/plugin/api.ts";

const MIN_SECRET_LENGTH = 32;
const Config = v.strictObject({
  keyId: v.pipe(v.string(), v.regex(/^[\w.-]{1,64}$/, "is no name of letters, digits, _ . and -")),
  secret: v.pipe(v.string(), v.minLength(MIN_SECRET_LENGTH)),
});

export default {
  name: "sign_requests",
  api: 1,
  // Around each attempt, so that a retry has its own time.
  phase: "attempt",
  config: Config,
  async create(host, { keyId, secret }): Promise<Plugin> {
    const algorithm = { name: "HMAC", hash: "SHA-256" };
    const bytes = new TextEncoder().encode(secret);
    const key = await crypto.subtle.importKey("raw", bytes, algorithm, false, ["sign"]);
    return {
      async onRequest({ request }, next) {
        const at = Math.floor(host.clock.wall() / 1_000);
        const signed = new TextEncoder().encode(signedText(request, at));
        const signature = new Uint8Array(await crypto.subtle.sign(algorithm, key, signed));
        const set = { "x-signature": `${keyId}:${at}:${signature.toHex()}` };
        return next({ request: request.with({ headers: { set } }) });
      },
    };
  },
} satisfies PluginDefinition<typeof Config>;

/** The parts cannot be confused, since none contains a line break. */
function signedText({ method, authority, path }: HttpRequest, at: number): string {
  return `${at}\n${method}\n${authority}\n${path}`;
}
