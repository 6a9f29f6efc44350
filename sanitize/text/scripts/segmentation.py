"""Segmentation of runs of letters into words, for scripts that are written without spaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Final

from medsanitize.policies.tables.script_words import fold_script, script_names, script_words
from medsanitize.sanitize.text.scripts.characters import MARKS, UNSPACED, script_of
from medsanitize.sanitize.text.scripts.readings import keys_by_kanji

_LONGEST: Final = {"cjk": 12, "thai": 24}
_MARK: Final = re.compile(f"[{MARKS}]")
_HAN: Final = re.compile("[\u3005\u3400-\u9fff\uf900-\ufaff]")
_HAN_RANGE: Final = range(0x4E00, 0xA000)
_HIRAGANA: Final = re.compile("[\u3041-\u309f]+")
_KATAKANA: Final = re.compile("[\u30a0-\u30ff]+")
_PARTICLES: Final = frozenset("はがをにでとものへやなしたて")
# Never part of a Chinese name.
_APART: Final = frozenset("由被把对或的了着是无未不诉伴示见呈")
_FULL_NAME: Final = 3
_NAME_ENDS: Final = frozenset("一二三郎子美太介助雄夫男彦香代江恵也斗人")
_LONGEST_THAI_NAME: Final = 16
_UNKNOWN: Final = 10.0
_SINGLE: Final = 1.6
_NAME: Final = 1.3
_PREFERRED: Final = 0.1
_SHORTEST_KATAKANA: Final = 3
# Most frequent Chinese surnames of one character that also occur as words, and characters of given names.
_SURNAMES: Final = frozenset(
    "王李张張刘劉陈陳杨楊赵趙黄黃周吴吳徐孙孫胡朱高林何郭马馬罗羅梁宋郑鄭谢謝韩韓唐冯馮于董萧蕭程曹袁邓鄧许許傅沈曾彭吕呂苏蘇卢盧"
    "蒋蔣蔡贾賈丁魏薛叶葉阎閻余潘杜戴夏钟鍾汪田任姜范方石姚谭譚廖邹鄒熊金陆陸郝孔白崔康毛邱秦江史顾顧侯邵孟龙龍万萬段雷钱錢汤湯"
    "尹黎易常武乔喬贺賀赖賴龚龔文庞樊兰蘭殷施陶洪翟安颜顏倪严嚴牛温溫芦季俞章鲁魯葛伍韦韋申尤毕畢聂聶丛焦向柳邢路岳齐齊沿梅莫"
    "庄莊辛管祝左涂谷祁时時舒耿牟卜路詹关關苗凌费費纪紀靳盛童欧歐甄项項曲成游阳陽裴席卫衛查屈鲍鮑位覃霍翁隋植甘景薄单單包司柏宁"
    "寧柯阮桂闵解强柴华華车車冉房边邊辜吉饶饒刁瞿戚丘古米池滕晋晉苑邬臧畅宫宮来來嵺苟全褚廉简簡娄婁盖蓋符奚木穆党燕郎邸冀谈談姬"
)
_LONG_SURNAMES: Final = frozenset(
    "欧阳 歐陽 司马 司馬 上官 诸葛 諸葛 司徒 慕容 皇甫 尉迟 公孙 公孫 长孙 長孫 "
    "东方 東方 令狐 宇文 轩辕 夏侯 端木 南宫 南宮 独孤 呼延 申屠 钟离 鍾離 闻人 赫连 百里 "
    "东郭 太史 澹台 濮阳 淳于 单于 万俟 司空 西门 拓跋".split()
)
_GIVEN: Final = frozenset(
    "伟偉强強磊军軍洋勇杰娟涛濤明超秀兰蘭霞平刚剛桂英华華建国國文辉輝力永健世广廣志义義兴興良海山仁波宁寧贵貴福生龙龍元全胜勝学學"
    "祥才发發武新利清飞飛彬富顺順信子昌成康星光天达達安岩中茂进進林有坚堅和彪博诚誠先敬震振壮壯会會思群豪心邦承乐樂绍紹功松善厚"
    "庆慶磊民友裕河哲江浩亮政谦謙亨奇固之轮翰朗伯宏言若鸣鳴朋斌梁栋棟维維启啟克伦翔旭鹏鵬泽澤晨辰士以建家致树樹炎德行时時泰盛"
    "雄琛钧鈞冠策腾騰楠榕风風航弘淑惠珠翠雅芝玉萍红紅娥玲芬芳燕彩春菊勤珍贞貞莉凤鳳洁潔梅琳素云雲莲蓮真环環雪荣榮爱愛妹香月莺"
    "媛艳艷瑞凡佳嘉琼瓊叶葉璧璐娅琦晶妍茜秋珊莎锦錦黛青倩婷姣婉娴瑾颖穎露瑶怡婵雁蓓纨仪儀荷丹蓉眉君琴蕊薇菁梦夢岚苑婕馨瑗琰韵"
    "融园園艺藝咏卿聪聰澜纯純毓悦昭冰爽琬茗羽希欣飘育滢馥筠柔竹霭凝晓曉欢歡霄枫芸菲寒伊亚亞宜可姬舒影荔枝思丽麗东東阳陽南北小大"
    "金银銀喜旺财財根花子宸涵冬萱睿皓煜昊桐瑜琪璇嫣娇嬌霖霆朵依诺諾沐远遠"
    "一二三四五郎夫雨宇轩軒涵梓诗詩语語彤俊佩雯静靜峰敏"
)


def chinese_name_pattern() -> str:
    """Return a regular expression of a Chinese surname and a given name of one or two characters."""
    return f"[{''.join(sorted(_SURNAMES))}][{''.join(sorted(_GIVEN))}]{{1,2}}"


def is_surname(piece: str) -> bool:
    """Return whether a piece is a Chinese surname, frequent or of two characters."""
    return piece in _SURNAMES or piece in _LONG_SURNAMES


def split_run(run: str) -> Iterator[tuple[int, int]]:
    """Yield the half-open spans of the words in a run of letters and digits.

    A run of Latin, Cyrillic or another spaced script is one word; Chinese, Japanese and Thai are segmented by
    their vocabulary. What is in no vocabulary is one word with the single characters next to it.
    """
    start = 0
    while start < len(run):
        script = script_of(run[start])
        end = start + 1
        while end < len(run) and (_group(run[end]) == _group(run[start]) or _MARK.match(run[end])):
            end += 1
        if script in UNSPACED:
            for first, last in _segments(run[start:end], script):
                yield start + first, start + last
        else:
            yield start, end
        start = end


def _group(char: str) -> str:
    """Return the class of a character; a run of one class is not divided."""
    script = script_of(char)
    return script if script in (*UNSPACED, "hangul") else "spaced"


@lru_cache(maxsize=4096)
def _segments(text: str, script: str) -> tuple[tuple[int, int], ...]:
    spans = _best(text, script)
    known = [is_segment(text[start:end], script) for start, end in spans]
    if script == "cjk":
        _spread_over_kana(text, spans, known)
        _mark_names(text, spans, known)
        _mark_given_names(text, spans, known)
        # A surname by itself; also "left", which is too frequent to be lost.
        if text in _SURNAMES and text != "左":
            known = [False]
    elif not all(known) and len(text) <= _LONGEST_THAI_NAME:
        # In Thai, spaces stand between names: a short run with an unknown part is one.
        known = [False] * len(known)
    else:
        known = [
            good and (end - start > 2 or _between_known(known, place))
            for place, ((start, end), good) in enumerate(zip(spans, known, strict=True))
        ]
    _spread_to_singles(text, spans, known)
    return tuple(_merged(spans, known))


def _best(text: str, script: str) -> list[tuple[int, int]]:
    """Return the division with the fewest unknown characters, and of these the fewest words."""
    best: list[tuple[float, int]] = [(0.0, 0)] + [(float("inf"), 0)] * len(text)
    for start in range(len(text)):
        cost = best[start][0]
        if cost == float("inf"):
            continue
        for end in range(start + 1, min(len(text), start + _LONGEST[script]) + 1):
            # A vowel sign is never the first character of a word.
            if end < len(text) and _MARK.match(text[end]):
                continue
            piece = text[start:end]
            if is_segment(piece, script) or _is_listed_name(piece):
                more = 1.0 if len(piece) > 1 else _SINGLE
                # Of equal divisions, the one with a name is assumed.
                more -= _PREFERRED * _is_listed_name(piece)
            elif _is_full_name(piece):
                more = _NAME
            elif all(_MARK.match(char) for char in piece[1:]):
                more = _UNKNOWN
            else:
                continue
            if cost + more < best[end][0]:
                best[end] = cost + more, start
    if best[-1][0] == float("inf"):
        return [(0, len(text))]
    spans, end = [], len(text)
    while end:
        spans.append((best[end][1], end))
        end = best[end][1]
    return spans[::-1]


@lru_cache(maxsize=65536)
def is_segment(piece: str, script: str) -> bool:
    """Return whether a piece of unspaced text is a word of the vocabulary or a particle."""
    if piece in _PARTICLES:
        return True
    return fold_script(piece) in script_words(script)


def _is_listed_name(piece: str) -> bool:
    # Names of three characters begin or end with a word: 五十嵐, 長谷川.
    return len(piece) > 1 and (piece in script_names() or (len(piece) > 2 and piece in _long_names()))


@cache
def _long_names() -> frozenset[str]:
    """Return Japanese names of three characters and more that are no words."""
    return frozenset(name for name in keys_by_kanji() if len(name) > 2 and name not in script_words("cjk"))


def _is_full_name(piece: str) -> bool:
    """Return whether a piece has the form of a Chinese name of three characters, or has a long surname."""
    if piece[:2] in _LONG_SURNAMES and len(piece) in (_FULL_NAME, _FULL_NAME + 1):
        return piece not in script_words("cjk")
    return len(piece) == _FULL_NAME and piece[0] in _SURNAMES and piece[1] in _GIVEN and piece[2] in _GIVEN


@cache
def _nameless() -> frozenset[str]:
    """Return the characters that are words and that no name contains."""
    in_names = {char for name in keys_by_kanji() for char in name} | _SURNAMES | _GIVEN
    words = script_words("cjk")
    return frozenset(char for char in map(chr, _HAN_RANGE) if char not in in_names and char in words)


def _between_known(known: list[bool], place: int) -> bool:
    return all(known[other] for other in (place - 1, place + 1) if 0 <= other < len(known))


def _spread_over_kana(text: str, spans: list[tuple[int, int]], known: list[bool]) -> None:
    """Mark whole runs of kana with an unknown part: half a name in kana is often a word."""
    for pattern, shortest in ((_KATAKANA, _SHORTEST_KATAKANA), (_HIRAGANA, 0)):
        for run in pattern.finditer(text):
            inside = [
                place for place, (start, end) in enumerate(spans) if start >= run.start() and end <= run.end()
            ]
            lone = sum(spans[place][1] - spans[place][0] == 1 for place in inside)
            broken = any(not known[place] for place in inside)
            short = len(inside) > 1 and any(spans[place][1] - spans[place][0] < shortest for place in inside)
            if broken or short or lone > 1:
                for place in inside:
                    known[place] = False


def _mark_names(text: str, spans: list[tuple[int, int]], known: list[bool]) -> None:
    """Mark a Chinese surname with the given name behind it, also if both are words."""
    for place, (start, end) in enumerate(spans):
        if end - start != 1 or text[start] not in _SURNAMES:
            continue
        taken = 0
        for other in range(place + 1, min(place + 3, len(spans))):
            piece = text[slice(*spans[other])]
            if taken + len(piece) > 2 or not all(char in _GIVEN for char in piece):
                break
            taken += len(piece)
            known[other] = False
        if taken:
            known[place] = False


def _mark_given_names(text: str, spans: list[tuple[int, int]], known: list[bool]) -> None:
    """Mark a word behind an unknown one if it begins with the end of a Japanese name: 佐藤健|一様."""
    for place in range(1, len(spans)):
        start, end = spans[place]
        if not known[place - 1] and end - start == 2 and text[start] in _NAME_ENDS:
            known[place] = False


def _spread_to_singles(text: str, spans: list[tuple[int, int]], known: list[bool]) -> None:
    """Mark the single characters next to an unknown word: names are short."""
    unknown = [place for place, good in enumerate(known) if not good]
    for place in unknown:
        for step in (-1, 1):
            for distance in (1, 2):
                other = place + step * distance
                if not 0 <= other < len(spans) or spans[other][1] - spans[other][0] > 1:
                    break
                char = text[spans[other][0]]
                if (
                    not _HAN.match(char)
                    or char in _APART
                    or (script_of(char) == "cjk" and char in _nameless())
                ):
                    break
                known[other] = False


def _merged(spans: list[tuple[int, int]], known: list[bool]) -> Iterator[tuple[int, int]]:
    held: tuple[int, int] | None = None
    for span, good in zip(spans, known, strict=True):
        if good:
            if held:
                yield held
            held = None
            yield span
        else:
            held = (held[0] if held else span[0], span[1])
    if held:
        yield held
