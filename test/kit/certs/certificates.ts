/**
 * Certificates for tests: an authority like Consul's, with leaves that can be made wrong on purpose
 * through `overrides`.
 *
 * @example
 * const ca = createAuthority();
 * const web = ca.issueLeaf({ service: "web" }); // certPem, keyPem, uri
 * const expired = ca.issueLeaf({ service: "web", overrides: { notAfterMs: NOW_MS - 1 } });
 *
 * @module
 */

import { type Authority, type AuthorityOptions, createAuthority as create } from "./authority.ts";

/** The trust domain of every authority that does not ask for its own. */
export const TRUST_DOMAIN = "11111111-2222-3333-4444-555555555555.consul";

/** A new root. Valid from now on unless `nowMs` is given: real TLS reads the real clock. */
export function createAuthority(options: Partial<AuthorityOptions> = {}): Authority {
  return create({ trustDomain: TRUST_DOMAIN, nowMs: Date.now() - 60_000, ...options });
}
