import { DevMesh } from "../../kit/dev_mesh.ts";
import { changedRegistration } from "../../stories/changed_registration.ts";

changedRegistration(DevMesh);
