/** Authorization of connections and requests. Pure and synchronous. @module */
export * from "./intention.ts";
export * from "./intention.ts";
export {
  compilePermission,
  type HeaderMatch,
  type JudgedRequest,
  needsRegexes,
  type PathMatch,
  type Permission,
  permissionFault,
} from "./permission.ts";
export * from "./request_policy.ts";
export { faultsOfTokens, type TokenNeed, type VerifiedClaims } from "./token_need.ts";
