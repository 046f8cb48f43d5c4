/**
 * The ACL of a world, and the rights of one request in it. A world that forgets gets another ACL; copies of
 * a world share theirs.
 *
 * @module
 */

import type { Ca } from "../../../../src/dev/ca/ca.ts";
import type { Call } from "../../../../src/dev/http/api.ts";
import { HttpRefusal } from "../../../../src/dev/refusal.ts";
import type { AclTerms, World } from "../../../../src/dev/world.ts";
import { Acl, type AclOptions, type Authorizer, TOKEN_UNKNOWN } from "./acl.ts";

export type AclOf = (world: Pick<World, "ca">) => Acl;

/** Gives each world the ACL that the options ask for, at its first use. */
export function aclsFor(options: AclOptions | undefined): AclOf {
  const acls = new WeakMap<Ca, Acl>();
  return ({ ca }) => {
    const acl = acls.get(ca) ?? new Acl(options);
    acls.set(ca, acl);
    return acl;
  };
}

/** The terms that the agent itself needs from the options. */
export function aclTerms(options: AclOptions | undefined): AclTerms {
  const { defaultPolicy = "allow", enabled = true } = options ?? {};
  return {
    defaultPolicy,
    allowsByDefault: !enabled || defaultPolicy === "allow",
    token: undefined,
  };
}

/** The secret that a request carries; `""`: none. */
export function secretOf({ req }: Call): string {
  const [, bearer = ""] = /^Bearer\s+(\S+)$/i.exec(req.header("authorization") ?? "") ?? [];
  return req.query("token") || req.header("x-consul-token") || bearer;
}

/** The rights of a request; throws 403 for a secret that no token has. */
export function rightsOf(call: Call, acl: Acl): Authorizer {
  const rights = acl.authorizer(secretOf(call));
  if (!rights) throw new HttpRefusal(403, TOKEN_UNKNOWN);
  return rights;
}
