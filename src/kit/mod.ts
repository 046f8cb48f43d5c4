/** What tests of plugins are written with: `postern/kit`. @module */
export type { Answer, RequestInit } from "./asked_request.ts";
export { FakeClock, settle } from "./clock.ts";
export { type Connected, mount, Mounted, type MountOptions } from "./mount.ts";
export {
  Held,
  hold,
  ok,
  reset,
  ScriptedUpstream,
  SeenRequest,
  status,
  type Step,
  unreachable,
} from "./scripted_upstream.ts";
