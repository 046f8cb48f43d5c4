/** What tests of plugins are written with: `postern/kit`. @module */
export type { Answer, Held, MountOptions, RequestInit, Step } from "./api.ts";
export { FakeClock, settle } from "./clock.ts";
export { KIT_TYPES, LENT_KIT } from "./lent.ts";
export { mount, Mounted } from "./mount.ts";
export {
  hold,
  ok,
  reset,
  ScriptedUpstream,
  SeenRequest,
  status,
  unreachable,
} from "./scripted_upstream.ts";
