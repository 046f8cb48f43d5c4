import { CONSUL } from "../kit/consul.ts";
import { flagsAlone } from "../stories/flags_alone.ts";

flagsAlone(CONSUL);
