"""Counting instructions in the text of a disassembler."""

from k3decode.host.sass import instruction_mix, local_accesses

SASS = """
.text.kernel:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0020*/              @!P0 BRA `(.L_x_1) ;
        /*0030*/                   HGMMA.64x8x16.F32.BF16 R24, gdesc[UR8], !UPT ;
        /*0040*/             @UPT UTMALDG.2D [UR8], [UR4] ;
        /*0050*/                   STL.64 [R1+0x8], R2 ;
        /*0060*/                   FFMA2 R2, R4, R6, R8 ;
        /*1070*/                   MUFU.RSQ R5, R5 ;
.L_x_1:
        /*1080*/                   EXIT ;
"""


def test_instructions_are_counted_by_family() -> None:
    assert instruction_mix(SASS) == {
        "tensor core": 1,
        "bulk copy": 1,
        "global": 1,
        "local": 1,
        "fp32": 1,
        "special function": 1,
        "other": 3,
    }


def test_a_local_store_counts_as_a_spill() -> None:
    assert local_accesses(SASS) == 1
    assert local_accesses(SASS.replace("STL", "STG")) == 0
