/** The kit for tests of plugins: `postern/kit`. @module */
export type { Answer, Held, MountOptions, RequestInit, Step } from "./api.ts";
export { FakeClock, settle } from "./clock.ts";
export { AUTHOR_KIT, KIT_TYPES, mount, Mounted } from "./mount.ts";
export {
  hold,
  ok,
  reset,
  ScriptedUpstream,
  SeenRequest,
  status,
  unreachable,
} from "./scripted_upstream.ts";
