/** The clock that the kit gives to plugins, under the name that tests know. @module */
export { FakeClock, settle } from "../../../src/kit/clock.ts";
