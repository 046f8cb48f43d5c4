import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { doctorFindsFaults } from "../../stories/doctor_finds_faults.ts";

doctorFindsFaults(DevMesh);
